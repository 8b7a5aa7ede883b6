"""The addresses of these pages, each tree under /t/<slug>/. A policy's page is that of one revision, by its id."""

from django.urls import URLPattern, path

from approvals.governing import absences, ending, groups, policies, trying, writing

urlpatterns: list[URLPattern] = [
    path("policies/", policies.policies, name="policies"),
    path("policies/write/", writing.write, name="policy-new"),
    path("policies/try/", trying.try_out, name="policy-try"),
    path("policies/<int:policy_id>/", policies.policy, name="policy"),
    path("policies/<int:policy_id>/compare/", policies.compared, name="policy-compare"),
    path("policies/<int:policy_id>/write/", writing.write, name="policy-write"),
    path("policies/<int:policy_id>/end/", ending.end, name="policy-end"),
    path("groups/", groups.groups, name="groups"),
    path("groups/make/", groups.make, name="group-make"),
    path("groups/<int:group_id>/add/", groups.add, name="group-add"),
    path("groups/<int:group_id>/change/", groups.change, name="group-change"),
    path("groups/<int:group_id>/remove/<int:member_id>/", groups.remove, name="group-remove"),
    path("absence/", absences.absence, name="absence"),
    path("absence/lend/", absences.lend, name="absence-lend"),
    path("absence/<int:absence_id>/end/", absences.end, name="absence-end"),
    path("absence/lent/<int:delegation_id>/revoke/", absences.revoke, name="absence-revoke"),
]
