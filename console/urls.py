"""The console's addresses: / and one tree an organisation under /t/<slug>/."""

from django.urls import URLPattern, path

from console import health
from console.views import (
    again,
    callbacks,
    changing,
    compensating,
    contracts,
    correcting,
    costs,
    dispatching,
    events,
    front,
    job,
    jobs,
    limits,
    migrating,
    questions,
    receivers,
    submit,
)

urlpatterns: list[URLPattern] = [
    path("", front.front, name="front"),
    path("t/<slug:slug>/", front.home, name="home"),
    path("t/<slug:slug>/jobs/", jobs.jobs, name="jobs"),
    path("t/<slug:slug>/jobs/<int:job_id>/", job.job, name="job"),
    path("t/<slug:slug>/jobs/<int:job_id>/operations/", job.job_operations, name="job-operations"),
    path("t/<slug:slug>/jobs/<int:job_id>/items/<int:item_id>/", job.item, name="item"),
    path(
        "t/<slug:slug>/jobs/<int:job_id>/items/<int:item_id>/correct/",
        correcting.correct,
        name="item-correct",
    ),
    path(
        "t/<slug:slug>/jobs/<int:job_id>/items/<int:item_id>/input-<int:version>.json",
        job.item_input,
        name="item-input",
    ),
    path(
        "t/<slug:slug>/jobs/<int:job_id>/items/<int:item_id>/output-<int:version>.json",
        job.item_output,
        name="item-output",
    ),
    path("t/<slug:slug>/jobs/<int:job_id>/steps/<int:stage_id>/", job.stage, name="stage"),
    path("t/<slug:slug>/jobs/<int:job_id>/redrive/", changing.redrive, name="job-redrive"),
    path(
        "t/<slug:slug>/jobs/<int:job_id>/operations/<int:operation_id>/compensate/",
        compensating.compensate,
        name="operation-compensate",
    ),
    path("t/<slug:slug>/jobs/<int:job_id>/run-again/", again.run_again, name="job-run-again"),
    path("t/<slug:slug>/jobs/<int:job_id>/migrate/", migrating.migrate, name="job-migrate"),
    path("t/<slug:slug>/jobs/<int:job_id>/files/<str:digest>/", job.job_file, name="job-file"),
    path("t/<slug:slug>/jobs/<int:job_id>/input.json", job.job_input, name="job-input"),
    path("t/<slug:slug>/jobs/<int:job_id>/journal/", job.journal_page, name="job-journal"),
    path("t/<slug:slug>/jobs/<int:job_id>/journal.json", job.journal_export, name="job-journal-export"),
    path("t/<slug:slug>/jobs/<int:job_id>/cancel/", changing.cancel, name="job-cancel"),
    path("t/<slug:slug>/jobs/<int:job_id>/hold/", changing.hold, name="job-hold"),
    path("t/<slug:slug>/jobs/<int:job_id>/release/", changing.release, name="job-release"),
    path("t/<slug:slug>/submit/", submit.choose, name="submit"),
    path("t/<slug:slug>/submit/<str:workflow>/", submit.submit, name="submit-workflow"),
    path("t/<slug:slug>/health/", health.page, name="health"),
    path("t/<slug:slug>/dispatch/", dispatching.dispatch, name="dispatch"),
    path("t/<slug:slug>/limits/", limits.limits, name="limits"),
    path("t/<slug:slug>/limits/set/", limits.edit, name="limit-edit"),
    path("t/<slug:slug>/limits/drop/", limits.drop, name="limit-drop"),
    path("t/<slug:slug>/cost/", costs.costs, name="costs"),
    path("t/<slug:slug>/cost.csv", costs.costs_file, name="costs-file"),
    path("t/<slug:slug>/questions/", questions.questions, name="questions"),
    path("t/<slug:slug>/questions/<int:question_id>/", questions.question, name="question"),
    path("t/<slug:slug>/events/", events.events, name="events"),
    path("t/<slug:slug>/events/<int:event_id>/discard/", events.discard, name="event-discard"),
    path("t/<slug:slug>/receivers/", receivers.receivers, name="receivers"),
    path("t/<slug:slug>/receivers/<int:receiver_id>/contract/", contracts.contract, name="receiver-contract"),
    path(
        "t/<slug:slug>/receivers/<int:receiver_id>/contract/write/",
        contracts.write,
        name="receiver-contract-write",
    ),
    path(
        "t/<slug:slug>/receivers/<int:receiver_id>/callbacks/", callbacks.callbacks, name="receiver-callbacks"
    ),
    path("t/<slug:slug>/receivers/<int:receiver_id>/pause/", receivers.pause, name="receiver-pause"),
    path("t/<slug:slug>/receivers/<int:receiver_id>/resume/", receivers.resume, name="receiver-resume"),
]
