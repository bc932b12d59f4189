"""The operations on records."""

from elytron import ops
from elytron.registry.operation import AnyOperation, Operation, Repeat
from elytron_core.contracts.knowledge import records

RECORDS: tuple[AnyOperation, ...] = (
    Operation("put_record", records.RecordPutRequest, records.RecordPutReport, lambda: ops.put_record,
              "Store a value under a namespace and a key.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("get_record", records.RecordGetRequest, records.RecordGetReport,
              lambda: ops.get_record, "Read one record."),
    Operation("delete_record", records.RecordDeleteRequest, records.RecordDeleteReport, lambda: ops.delete_record,
              "Delete a record; its history stays until it is erased.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("search_records", records.RecordSearchRequest, records.RecordSearchReport, lambda: ops.search_records,
              "Find records by namespace, fields and words."),
    Operation("list_record_namespaces", records.RecordNamespaceListRequest, records.RecordNamespaceListReport,
              lambda: ops.list_record_namespaces, "List the namespaces that hold records."),
    Operation("record_history", records.RecordHistoryRequest, records.RecordHistoryReport, lambda: ops.record_history,
              "Read the versions of one record."),
)  # fmt: skip
