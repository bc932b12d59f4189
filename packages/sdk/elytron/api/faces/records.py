"""Calls on records: values under a namespace and a key."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from elytron.api import calls
from elytron.api.calls import BlockingCalls, CallFace, blocking_call, takes_request
from elytron.api.metadata_filters import where_from
from elytron_core.contracts import records
from elytron_core.planes.facts import FactPrivacy


class RecordsFace(CallFace):
    """Put, read, delete and search values; each change has a version.

    The examples start from here:

    >>> for name, boxes in {"assam": 0, "sencha": 3}.items():
    ...     _ = memory.put_record(["shop", "stock"], name, {"boxes": boxes})
    """

    @takes_request(records.RecordPutRequest)
    async def put_record(
        self,
        namespace: Sequence[str],
        key: str,
        value: JsonValue,
        *,
        text: str = "",
        privacy: FactPrivacy = FactPrivacy.SHARED,
        ttl_s: int | None = None,
        expected_version: int | None = None,
        user_id: str | None = None,
    ) -> records.RecordPutReport:
        """Store `value` under its name. Raises PreconditionFailed if it is not of `expected_version` (0: absent).

        >>> memory.put_record(["shop", "stock"], "sencha", {"boxes": 2}, expected_version=1).record.version
        2
        """
        request = records.RecordPutRequest(
            scope=calls.scope_of(self.scope, user_id=user_id),
            namespace=calls.text_list(namespace, field="namespace"),
            key=key,
            value=value,
            text=text,
            privacy=calls.word_member(FactPrivacy, privacy, field="privacy"),
            ttl_s=ttl_s,
            expected_version=expected_version,
        )
        return await self.operate(request)

    @takes_request(records.RecordGetRequest)
    async def get_record(
        self,
        namespace: Sequence[str],
        key: str,
        *,
        include_private: bool = False,
        user_id: str | None = None,
    ) -> records.RecordGetReport:
        """Read one record. Raises NotFound.

        >>> memory.get_record(["shop", "stock"], "sencha").record.value
        {'boxes': 3}
        """
        request = records.RecordGetRequest(
            scope=calls.scope_of(self.scope, user_id=user_id),
            namespace=calls.text_list(namespace, field="namespace"),
            key=key,
            include_private=include_private,
        )
        return await self.operate(request)

    @takes_request(records.RecordDeleteRequest)
    async def delete_record(
        self,
        namespace: Sequence[str],
        key: str,
        *,
        expected_version: int | None = None,
        reason: str = "",
        user_id: str | None = None,
    ) -> records.RecordDeleteReport:
        """Delete one record; its history stays until it is erased. Raises PreconditionFailed as `put_record` does.

        >>> memory.delete_record(["shop", "stock"], "assam", reason="sold out").changed
        True
        """
        request = records.RecordDeleteRequest(
            scope=calls.scope_of(self.scope, user_id=user_id),
            namespace=calls.text_list(namespace, field="namespace"),
            key=key,
            expected_version=expected_version,
            reason=reason,
        )
        return await self.operate(request)

    @takes_request(records.RecordSearchRequest)
    async def search_records(
        self,
        namespace: Sequence[str] = (),
        *,
        query: str = "",
        where: Mapping[str, Any] | None = None,
        limit: int = 100,
        offset: int = 0,
        include_private: bool = False,
        user_id: str | None = None,
    ) -> records.RecordSearchReport:
        """Find records below a namespace; `where` is a nested filter on fields of the value, in mem0's form.

        >>> [item.key for item in memory.search_records(["shop"], where={"boxes": {"gt": 0}}).items]
        ['sencha']
        """
        request = records.RecordSearchRequest(
            scope=calls.scope_of(self.scope, user_id=user_id),
            namespace=calls.text_list(namespace, field="namespace"),
            query=query,
            where=where_from(where or {}),
            limit=limit,
            offset=offset,
            include_private=include_private,
        )
        return await self.operate(request)

    @takes_request(records.RecordNamespaceListRequest)
    async def list_record_namespaces(
        self,
        prefix: Sequence[str] = (),
        *,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
        include_private: bool = False,
        user_id: str | None = None,
    ) -> records.RecordNamespaceListReport:
        """List the namespaces below a prefix, each with its number of records.

        >>> [(found.namespace, found.records) for found in memory.list_record_namespaces(["shop"]).namespaces]
        [(('shop', 'stock'), 2)]
        """
        request = records.RecordNamespaceListRequest(
            scope=calls.scope_of(self.scope, user_id=user_id),
            prefix=calls.text_list(prefix, field="prefix"),
            max_depth=max_depth,
            limit=limit,
            offset=offset,
            include_private=include_private,
        )
        return await self.operate(request)

    @takes_request(records.RecordHistoryRequest)
    async def record_history(
        self,
        namespace: Sequence[str],
        key: str,
        *,
        include_private: bool = False,
        user_id: str | None = None,
    ) -> records.RecordHistoryReport:
        """Read the stored versions of one record, oldest first. Raises NotFound.

        >>> _ = memory.put_record(["shop", "stock"], "sencha", {"boxes": 2})
        >>> [version.value for version in memory.record_history(["shop", "stock"], "sencha").versions]
        [{'boxes': 3}, {'boxes': 2}]
        """
        request = records.RecordHistoryRequest(
            scope=calls.scope_of(self.scope, user_id=user_id),
            namespace=calls.text_list(namespace, field="namespace"),
            key=key,
            include_private=include_private,
        )
        return await self.operate(request)


class BlockingRecords(BlockingCalls):
    """The calls of records, blocking until their answer."""

    put_record = blocking_call(RecordsFace.put_record)
    get_record = blocking_call(RecordsFace.get_record)
    delete_record = blocking_call(RecordsFace.delete_record)
    search_records = blocking_call(RecordsFace.search_records)
    list_record_namespaces = blocking_call(RecordsFace.list_record_namespaces)
    record_history = blocking_call(RecordsFace.record_history)
