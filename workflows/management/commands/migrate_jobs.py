"""`manage.py migrate_jobs`: take jobs to another revision, each by itself; or only say what would become of them."""

from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from access.belonging import tenants_of
from access.models import Person, Tenant
from access.refusals import Refused
from access.tenancy import TenantQuerySet, reading
from workflows.actions.migrate import look, migrate_job
from workflows.authoring import Workflow
from workflows.migrating.plan import Plan
from workflows.migrating.planning import MIGRATABLE, NoMigration, target_named
from workflows.models import Job


class Command(BaseCommand):
    help = (
        "Migrate jobs to another revision by its declared migration. Each job is looked at in full first, and is"
        " migrated or left as it is. Exit code 1 when one was left."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workflow")
        parser.add_argument("--from", dest="from_revision", required=True, metavar="REVISION")
        parser.add_argument("--to", required=True, metavar="REVISION")
        parser.add_argument(
            "--job",
            type=int,
            action="append",
            default=[],
            metavar="ID",
            help="only this one; may be repeated",
        )
        parser.add_argument("--tenant", default="", metavar="SLUG", help="only jobs of this organisation")
        parser.add_argument(
            "--as", dest="handle", default="", metavar="HANDLE", help="the operator who answers for it"
        )
        parser.add_argument("--reason", default="", help="why; kept in each job's journal")
        parser.add_argument("--dry-run", action="store_true", help="change nothing, and say what would become of each")  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        target = _target(options)
        person = None if options["dry_run"] else _operator(options)
        left = moved = past = 0
        for tenant in _tenants(options["tenant"], person):
            past += 0 if options["job"] else _past(tenant, options)
            for job_id in _jobs(tenant, options):
                done = self._one(tenant, job_id, target, person, options)
                moved, left = moved + done, left + (not done)
        if past:
            self.stdout.write(
                f"{past:,} more have a proposal or are past it; they end on revision {options['from_revision']}."
            )
        if moved + left < len(set(options["job"])):
            raise CommandError("Not every job that was named is one that you may see here.")
        self._sum_up(moved, left, dry=person is None)

    def _one(
        self, tenant: Tenant, job_id: int, target: Workflow, person: Person | None, options: dict[str, Any]
    ) -> bool:
        """Tell one job's fate, and whether it was (or could be) migrated."""
        try:
            with look(tenant_id=tenant.pk, job_id=job_id, target=target) as plan:
                self._tell(tenant, plan)
                if not plan.possible:
                    self.stdout.write("  → left as it is")
                    return False
            if person is not None:
                migrate_job(
                    tenant_id=tenant.pk,
                    job_id=job_id,
                    person_id=person.pk,
                    from_revision=options["from_revision"],
                    to=target.revision,
                    reason=options["reason"],
                    now=timezone.now(),
                )
        except Refused as refused:
            self.stdout.write(f"  → left as it is: {refused}")
            return False
        self.stdout.write("  → can be migrated" if person is None else f"  → revision {target.revision}")
        return True

    def _tell(self, tenant: Tenant, plan: Plan) -> None:
        self.stdout.write(f"{plan.label} ({tenant.slug}), {plan.state}")
        if plan.why:
            self.stdout.write(f"  {plan.why}")
            return
        self.stdout.write(f"  {'the input':<24} {plan.input.becomes.value:<12} {plan.input.sentence}")
        for step in plan.steps:
            self.stdout.write(f"  {step.name:<24} {step.becomes.value:<12} {step.sentence}")
            for result in step.results:
                self.stdout.write(f"    {result.key:<22} {result.becomes.value:<12} {result.sentence}")
            if step.unlisted:
                self.stdout.write(f"    and {step.unlisted:,} more")

    def _sum_up(self, moved: int, left: int, *, dry: bool) -> None:
        if not moved and not left:
            self.stdout.write("No job of that revision is without a proposal: there is nothing to migrate.")
            return
        done = "can be migrated" if dry else "migrated"
        told = f"{moved:,} of {moved + left:,} {done}.{' Nothing was changed.' if dry else ''}"
        if left:
            raise CommandError(f"{told} {left:,} {'cannot be' if dry else 'left as before'}, as said above.")
        self.stdout.write(told)


def _target(options: dict[str, Any]) -> Workflow:
    try:
        return target_named(options["workflow"], from_revision=options["from_revision"], to=options["to"])
    except NoMigration as none:
        raise CommandError(str(none)) from none


def _operator(options: dict[str, Any]) -> Person:
    if not options["handle"] or not options["reason"].strip():
        raise CommandError(
            "Say who answers for it (--as HANDLE) and why (--reason …), or look first (--dry-run)."
        )
    person = Person.objects.filter(username=options["handle"], is_active=True).first()
    if person is None:
        raise CommandError(f"There is nobody called {options['handle']} here.")
    return person


def _tenants(slug: str, person: Person | None) -> Iterator[Tenant]:
    tenants = Tenant.objects.order_by("pk")
    if person is not None:
        tenants = tenants.filter(pk__in=[belonging.tenant_id for belonging in tenants_of(person.pk)])
    if slug:
        tenants = tenants.filter(slug=slug)
        if not tenants.exists():
            whose = "" if person is None else f" that {person.username} is in"
            raise CommandError(f"There is no organisation {slug}{whose}.")
    yield from tenants


def _jobs(tenant: Tenant, options: dict[str, Any]) -> list[int]:
    """The jobs that are asked for, or those of the revision that have no proposal."""
    with reading(tenant.pk):
        jobs = Job.objects.filter(pk__in=options["job"])
        if not options["job"]:
            jobs = _of_revision(options).filter(state__in=MIGRATABLE)
        return list(jobs.order_by("pk").values_list("pk", flat=True))


def _past(tenant: Tenant, options: dict[str, Any]) -> int:
    """How many jobs of the revision have a proposal or are past it."""
    with reading(tenant.pk):
        return _of_revision(options).filter(ended_at__isnull=True).exclude(state__in=MIGRATABLE).count()


def _of_revision(options: dict[str, Any]) -> TenantQuerySet[Job]:
    return Job.objects.filter(workflow=options["workflow"], revision=options["from_revision"])
