"""Reading kept files, and binding them to the jobs whose inputs name them. Needs the tenant's scope, but for `reader_of`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from access.refusals import NotFound
from access.tenancy import reading
from workflows import submissions
from workflows.authoring import Problem, Workflow
from workflows.authoring.files import File, FileKind, NamedFiles, NoSuchFile, Reader
from workflows.locks import lock_files
from workflows.models import Job, JobFile, StoredFile


class NoFileOfJob(NotFound):
    """The job names no such file."""


@dataclass(frozen=True, slots=True)
class Named:
    """A file that a submission names, where it names it, and which kinds stand to be named there."""

    field: str
    digest: str
    kinds: tuple[FileKind, ...]


def named_in(workflow: Workflow, text: str, value: Any) -> list[Named]:
    """The files that a checked input names."""
    names = NamedFiles()
    workflow.input.model_validate_json(text, context=names)
    return [Named(_place(value, digest), digest, kinds) for digest, kinds in names.found]


def lock_named(named: Sequence[Named]) -> list[StoredFile]:
    """The files, locked so that no sweep takes them in this transaction; InvalidSubmission where one is not right."""
    if not named:
        return []
    found = {f.digest: f for f in lock_files({n.digest for n in named})}
    problems = [p for n in named if (p := _problem(n, found.get(n.digest))) is not None]
    if problems:
        raise submissions.InvalidSubmission(list(dict.fromkeys(problems)))
    return list(found.values())


def bind(job: Job, files: Sequence[StoredFile]) -> None:
    """The job names these files from now on."""
    JobFile.objects.bulk_create(JobFile(tenant_id=job.tenant_id, job=job, file=f) for f in files)


def files_of(job: Job) -> list[StoredFile]:
    """A job's files without their bytes, in the order they were named."""
    rows = JobFile.objects.filter(job=job).select_related("file").defer("file__content").order_by("pk")
    return [row.file for row in rows]


def file_of(job: Job, digest: str) -> StoredFile:
    """One file of a job with its bytes. Raises NoFileOfJob."""
    row = JobFile.objects.filter(job=job, file__digest=digest).select_related("file").first()
    if row is None:
        raise NoFileOfJob(f"{job.label} has no such file.")
    found: StoredFile = row.file
    return found


def reader_of(tenant_id: int, job_id: int) -> Reader:
    """What `Ctx.read_file` reads with: files of this job, each in a transaction of its own."""

    def read(digest: str) -> File:
        with reading(tenant_id):
            try:
                stored = file_of(Job.objects.get(pk=job_id), digest)
            except NoFileOfJob as missing:
                raise NoSuchFile(str(missing)) from missing
        return File(name=stored.name, kind=FileKind(stored.kind), content=bytes(stored.content))

    return read


def _problem(named: Named, found: StoredFile | None) -> Problem | None:
    if found is None:
        return Problem(named.field, "names a file that is not here (any more); upload it, then submit again")
    if found.kind not in named.kinds:
        wanted = " or ".join(k.words for k in named.kinds)
        return Problem(named.field, f"is {FileKind(found.kind).words}; give {wanted}")
    return None


def _place(value: Any, digest: str) -> str:
    return next(_places(value, digest, ""), "")


def _places(value: Any, digest: str, path: str) -> Iterator[str]:
    if value == digest:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from _places(inner, digest, f"{path}.{key}".lstrip("."))
