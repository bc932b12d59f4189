"""A host registers its tools and reports their outcomes; memory hints at those that worked and have not changed."""

import elytron
from elytron import AgentToolDescriptor, AgentToolObservation, AgentToolRegistrySnapshot, ToolOutcome, with_fingerprints


def registry(schema: str) -> AgentToolRegistrySnapshot:
    """Return the host's tools, one of them with this schema."""
    tool = AgentToolDescriptor(tool_id="read_file", schema_fingerprint=schema, permission_tags=("files",))
    return with_fingerprints(AgentToolRegistrySnapshot(registry_id="host-tools", namespace="desk", tools=(tool,)))


def ask(memory: elytron.SyncMemoryRuntime, tools: AgentToolRegistrySnapshot) -> None:
    """Print recall's hints about the tools."""
    request = elytron.MemoryRecallRequest(query="where is the lease?", tool_registry_refs=(tools.ref,))
    report = memory.recall(request)
    for hint in report.agent_tool_hints:
        print(f"  hint: {hint.tool_id} ({hint.confidence}), {hint.reason}; the host still has to run it")
    for rejected in report.tool_experience_status.rejected:
        print(f"  left out: {rejected.tool_id}, {rejected.reason}")
    print(f"  {report.tool_experience_status.reason}")


with elytron.open("memory:", space="desk") as memory:
    tools = registry("schema-1")
    print("registered:", memory.upsert_agent_tool_registry(tools).accepted)
    print("a cold start:")
    ask(memory, tools)

    seen = AgentToolObservation(tool_id="read_file", schema_fingerprint="schema-1", outcome=ToolOutcome.SUCCEEDED)
    feedback = elytron.AgentToolUsageFeedback(
        registry_ref=tools.ref, observations=(seen,), user_visible_result_summary="Found the lease in the documents"
    )
    for _ in range(2):
        write = elytron.AgentToolUsageFeedbackWrite(feedback=feedback)
        decision = memory.write(elytron.MemoryWriteRequest(write=write)).decisions[0]
        print(f"feedback: {decision.outcome}, {decision.reason.partition(':')[0]}")
    print("after two successes:")
    ask(memory, tools)

    changed = registry("schema-2")
    memory.upsert_agent_tool_registry(changed)
    print("after the tool's contract changed:")
    ask(memory, changed)
