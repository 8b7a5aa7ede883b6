"""Starting a job by hand: choose a workflow, fill in its form."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponseBase
from django.shortcuts import redirect, render
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from access.doors import TenantRequest, tenant_page
from access.roles import Role
from console.forms import SubmitForm, form_of, new_key
from console.links import link
from console.uploading import keep_upload, kept_before
from workflows import registry, submissions
from workflows.actions.keep_file import FileRefused
from workflows.actions.submit import ReferenceTaken, SubmissionKeyReused, submit_job
from workflows.authoring import Problem, Workflow
from workflows.titles import in_words


@require_safe
@tenant_page(Role.SUBMITTER)
def choose(request: TenantRequest, slug: str) -> HttpResponseBase:
    """The workflows that are installed here."""
    installed = registry.workflows()
    # What takes back other jobs' changes begins from one of those, never here.
    names = sorted({w.name for w in installed.values() if not w.compensates})
    context = {"workflows": [registry.current(n) for n in names], "unusable": bool(installed.unusable)}
    return render(request, "console/choose.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.SUBMITTER, takes_files=True)
def submit(request: TenantRequest, slug: str, workflow: str) -> HttpResponseBase:
    """The form of a workflow. One rendering is one intent: its hidden key makes a second press find the first's job."""
    definition = _definition(workflow)
    if request.method != "POST":
        return _form(request, definition, form_of(definition))
    form = form_of(definition, request)
    problems = [*_keep_files(request, form), *_try_shape(definition, form)]
    if problems:
        form.blame(problems)
    if form.errors:
        return _form(request, definition, form, status=422)
    try:
        made = submit_job(
            tenant_id=request.tenant.pk,
            workflow=workflow,
            value=form.value(),
            submission_key=form.data.get("submission_key", ""),
            person_id=request.person.pk,
            source="console",
            now=timezone.now(),
        )
    except submissions.InvalidSubmission as refusal:
        form.blame(refusal.problems)
        return _form(request, definition, form, status=422)
    except SubmissionKeyReused:
        note = "This form has made a job already. If this is another one, submit it again."
        return _form(request, definition, form, status=422, note=note, key=new_key())
    except ReferenceTaken as refusal:
        return _form(
            request, definition, form, status=409, note=str(refusal), url=link("job", slug, refusal.job_id)
        )
    messages.success(request, "This form had made this job already." if made.replayed else "Submitted.")
    return redirect("job", slug, made.job_id)


def _definition(name: str) -> Workflow:
    try:
        definition = registry.current(name)
    except registry.NoSuchWorkflow as error:
        raise Http404(str(error)) from error
    if definition.compensates:
        raise Http404(f"A job of {name} begins where another job's change is compensated.")
    return definition


def _keep_files(request: TenantRequest, form: SubmitForm) -> list[Problem]:
    """Keep what was chosen, each in a transaction of its own, and find what is kept from before; what was refused."""
    problems = []
    for entry, chosen, digest in form.uploads():
        try:
            kept = keep_upload(request, chosen) if chosen is not None else kept_before(request, digest)
        except FileRefused as refused:
            form.fields[entry.name].required = False  # one sentence at the field: this one
            problems.append(Problem(entry.name, str(refused)))
        else:
            if kept is not None:
                form.keep(entry, kept)
    return problems


def _try_shape(definition: Workflow, form: SubmitForm) -> list[Problem]:
    form.full_clean()
    try:
        submissions.check(definition, form.value())
    except submissions.InvalidSubmission as refusal:
        return refusal.problems
    return []


def _form(
    request: TenantRequest,
    definition: Workflow,
    form: SubmitForm,
    *,
    status: int = 200,
    note: str = "",
    url: str = "",
    key: str = "",
) -> TemplateResponse:
    """Rendered by the door, in the organisation's scope."""
    wrong = sum(1 for name in form.errors if name != "__all__") if form.is_bound else 0
    context = {
        "workflow": definition,
        "workflow_title": definition.title or in_words(definition.name),
        # Titles only: a step can be called, and a template calls what can be.
        "steps": ", ".join(step.title.lower() for step in definition.steps),
        "form": form,
        "submission_key": key or form["submission_key"].value() or new_key(),
        "wrong": wrong,
        "note": note,
        "note_url": url,
    }
    return TemplateResponse(request, "console/submit.html", context, status=status)
