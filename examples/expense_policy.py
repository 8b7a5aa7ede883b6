"""Expense policy: a policy's text becomes rules, each with a test; two managers approve, and it is published."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from examples.model_client import ask
from examples.rule_conditions import Unreadable, holds
from workflows.authoring import (
    Ctx,
    FieldChange,
    Invalid,
    OperationDraft,
    Permanent,
    Problem,
    ProposalDraft,
    Retry,
    Retryable,
    SourceRecord,
    Workflow,
)

MODEL, SMALL_MODEL = "atlas-large", "atlas-small"
Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,59}$")]
Fact = bool | int | Annotated[str, StringConstraints(max_length=200)]


class PolicyUpload(BaseModel):
    """What a submitter hands in."""

    model_config = ConfigDict(extra="forbid")

    reference: Annotated[str, StringConstraints(pattern=r"^[A-Z0-9][A-Z0-9-]{2,39}$")] = Field(
        title="Reference", description="Your own number, such as POL-2026-03. One job is made for each."
    )
    title: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        title="Title", description="What the policy is called when it is published."
    )
    text: Annotated[str, StringConstraints(min_length=1, max_length=100_000)] = Field(
        title="Policy text",
        description="The policy as people read it. Each rule becomes one rule with one test.",
        json_schema_extra={"widget": "file"},
    )
    erp: Literal["keyed", "lookup", "neither"] = Field(
        default="keyed",
        title="Receiver",
        description="Astrel ERP with operation keys (keyed), with a look-up only (lookup), or with neither.",
    )


class RuleText(BaseModel):
    """One rule in the policy's own words."""

    number: int
    text: Text


class Parsed(BaseModel):
    """The policy taken apart."""

    title: str
    rules: Annotated[list[RuleText], Field(min_length=1, max_length=200)]


class Rule(BaseModel):
    """One rule as a condition over the fields of a claim."""

    number: int
    name: Name
    condition: Text
    severity: Literal["block", "flag"]


class RuleTest(BaseModel):
    """Facts for which a rule's condition holds, and facts for which it does not."""

    rule: int
    passes: dict[str, Fact]
    fails: dict[str, Fact]


class Checked(BaseModel):
    """How many rules were run against their tests; every one held."""

    rules: int


class PolicyAnswer(BaseModel):
    """What the model answers when it takes a policy apart."""

    title: str
    rules: Annotated[list[Text], Field(min_length=1, max_length=200)]


expense_policy = Workflow(
    "expense-policy",
    revision="1",
    input=PolicyUpload,
    title="Expense policy",
    describe=lambda upload: f"Publish {upload.title}",
    reference_of=lambda upload: str(upload.reference),
    settings={"models": [MODEL, SMALL_MODEL], "prompts": 1},
)


@expense_policy.validate
def validate(ctx: Ctx, upload: PolicyUpload) -> None:
    """A title and a text with something in them."""
    blank = [name for name in ("title", "text") if not getattr(upload, name).strip()]
    if blank:
        raise Invalid(*(Problem(name, "holds only blanks") for name in blank))


@expense_policy.step(retry=Retry(attempts=3), title="Parse policy")
def parse(ctx: Ctx, upload: PolicyUpload) -> Parsed:
    """The policy's rules, numbered in their order."""
    prompt = f"Reference {upload.reference}. List the rules of this policy.\n<<<\n{upload.text}\n>>>"
    answer = ask(ctx, task="parse-policy", prompt=prompt, schema=PolicyAnswer, model=MODEL)
    rules = [RuleText(number=n, text=text) for n, text in enumerate(answer.rules, start=1)]
    return Parsed(title=answer.title, rules=rules)


@expense_policy.step(each=parse.rules, retry=Retry(attempts=3), title="Write rule")
def write_rule(ctx: Ctx, rule: RuleText) -> Rule:
    """A condition for one rule."""
    prompt = f"Write this rule as a condition.\n<<<\n{rule.text}\n>>>"
    written = ask(ctx, task=f"write-rule {rule.number}", prompt=prompt, schema=Rule, model=SMALL_MODEL)
    if written.number != rule.number:
        raise Retryable(f"Rule {rule.number} was asked for, and rule {written.number} was answered.")
    return written


@expense_policy.step(each=write_rule, retry=Retry(attempts=3), title="Write test")
def write_test(ctx: Ctx, rule: Rule) -> RuleTest:
    """Facts that tell whether a rule does what it should."""
    prompt = f"Give facts for which this holds, and facts for which it does not.\n<<<\n{rule.condition}\n>>>"
    written = ask(ctx, task=f"write-test {rule.number}", prompt=prompt, schema=RuleTest, model=SMALL_MODEL)
    if written.rule != rule.number:
        raise Retryable(f"A test of rule {rule.number} was asked for, and one of {written.rule} answered.")
    return written


@expense_policy.step(title="Check rules against tests")
def check(ctx: Ctx, parsed: Parsed, rules: list[Rule], tests: list[RuleTest]) -> Checked:
    """Every rule once, with its test: run here, by code, not by a model."""
    wanted = [r.number for r in parsed.rules]
    if [r.number for r in rules] != wanted or [t.rule for t in tests] != wanted:
        raise Permanent("There is not exactly one rule and one test for every rule of the policy.")
    names = [r.name for r in rules]
    wrong = [f"the name {n} is used twice" for n in sorted(set(names)) if names.count(n) > 1]
    wrong += [
        why for rule, test in zip(rules, tests, strict=True) if (why := _disagreement(rule, test)) is not None
    ]
    if wrong:
        raise Permanent(f"The rules and their tests do not agree: {'; '.join(wrong)}.")
    return Checked(rules=len(rules))


@expense_policy.propose(approval="policy-publishing", title="Propose publishing")
def propose(
    ctx: Ctx, upload: PolicyUpload, rules: list[Rule], tests: list[RuleTest], checked: Checked
) -> ProposalDraft:
    """One call that publishes all rules together."""
    operation = OperationDraft(
        receiver=f"astrel-erp-{upload.erp}",
        action="publish-policy",
        record=upload.reference,
        title=f"Publish {upload.title}",
        changes=(
            FieldChange(field="title", label="Title", proposed=upload.title, source="The submission"),
            *(_change(rule) for rule in rules),
        ),
        body={
            "title": upload.title,
            "reference": upload.reference,
            "rules": [
                {**rule.model_dump(), "test": test.model_dump(exclude={"rule"})}
                for rule, test in zip(rules, tests, strict=True)
            ],
        },
    )
    blocking = sum(rule.severity == "block" for rule in rules)
    return ProposalDraft(
        title=f"Publish {upload.title}",
        summary=f"{checked.rules} rules, {blocking} of which block a claim. Each was run against its test.",
        model_route=f"{MODEL}, {SMALL_MODEL}",
        recipient="Astrel ERP",
        sources=(SourceRecord(name=f"Policy text {upload.reference}", version="1"),),
        operations=(operation,),
    )


def _disagreement(rule: Rule, test: RuleTest) -> str | None:
    try:
        if not holds(rule.condition, test.passes):
            return f"rule {rule.number} does not hold for the facts it should hold for"
        if holds(rule.condition, test.fails):
            return f"rule {rule.number} holds for the facts it should not hold for"
    except Unreadable as unreadable:
        return f"rule {rule.number}: {unreadable}"
    return None


def _change(rule: Rule) -> FieldChange:
    return FieldChange(
        field=f"rules.{rule.number}",
        label=f"Rule {rule.number}, {rule.name}",
        proposed=f"{rule.severity}: {rule.condition}"[:1000],
        source=f"Model {SMALL_MODEL}",
        by_model=True,
    )
