"""A procedure is learned, corrected after a failure, merged with its duplicate, and disabled. Nothing executes it."""

import elytron
from elytron import ReuseOutcome

STEPS = "1. Turn the heating off.\n2. Open the valve until water comes.\n3. Close it and check the pressure."


def learn(memory: elytron.SyncMemoryRuntime, name: str, title: str, steps: str) -> str:
    """Write a procedure, print admission's decision, and return the stored id."""
    skill = elytron.RuntimeSkillWrite(
        name=name, topic="heating", title=title, summary="Letting the air out, lowest floor first", content=steps
    )
    decision = memory.write(elytron.MemoryWriteRequest(write=elytron.ProcedureSource(writes=(skill,)))).decisions[0]
    print(f"{decision.outcome:<9} {name}{f': {decision.reason}' if decision.reason else ''}")
    return str(decision.id)


with elytron.open("memory:", space="house") as memory:
    name = learn(memory, "bleed-radiators", "Bleed the radiators", STEPS)
    print("recalled: ", memory.recall("how do I bleed the radiators?").hits[0].title)

    memory.record_skill_reuse(name, outcome=ReuseOutcome.MISMATCH, note="the pump ran on")
    print("pending:  ", memory.get_runtime_skill(name).skill.revision_pending)
    better = STEPS.replace("heating off", "heating and the pump off")
    memory.edit_runtime_skill(
        elytron.RuntimeSkillEditRequest(name=name, procedure=better, edit_reason="the pump ran on")
    )
    for diff in memory.get_runtime_skill(name).strategy_diffs:
        print(f"{diff.change}: {diff.before!r} -> {diff.after!r}, because {diff.reason}")

    other = learn(memory, "radiator-air", "Bleeding the radiators", better)
    listing = memory.list_runtime_skills(elytron.RuntimeSkillListRequest(include_retired=True))
    for skill in listing.runtime_skills:
        print(f"{skill.name:<30} {skill.state:<8} quality {skill.quality}, used {skill.use_count} times")

    memory.set_runtime_skill_enabled(other, enabled=False)
    print("disabled: ", memory.recall("how do I bleed the radiators?").outcome)
