"""The door of a page: who comes in, how the way from / leads, how a lock that is held is told."""

from __future__ import annotations

import re

import pytest
from django import forms
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.template.response import TemplateResponse
from django.test import Client, RequestFactory
from django.urls import get_resolver
from django.utils import timezone
from django_htmx.middleware import HtmxDetails

from access import authority
from access.belonging import Belonging, tenants_of
from access.doors import WRITTEN, TenantRequest, tenant_page
from access.models import Membership, Person, Tenant
from access.refusals import Conflict
from access.roles import Role
from access.tenancy import acting, current_tenant_id
from config.var import PROJECT
from tests.support import make_person, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def ask(person: Person, method: str = "GET") -> HttpRequest:
    request = RequestFactory().generic(method, "/somewhere/")
    request.user = person
    request.htmx = HtmxDetails(request)  # type: ignore[attr-defined]
    return request


@tenant_page(Role.ADMIN)
def admins(request: TenantRequest, slug: str) -> HttpResponse:
    return HttpResponse(f"{current_tenant_id() or 'none'} {sorted(request.roles)}")


def test_a_member_with_the_role_reads_in_the_scope_and_writes_outside_of_one() -> None:
    tenant = make_tenant()
    person = make_person(tenant, Role.ADMIN)
    read, written = admins(ask(person), tenant.slug), admins(ask(person, "POST"), tenant.slug)
    assert read.content.decode().startswith(f"{tenant.pk} ")  # type: ignore[attr-defined]
    assert written.content.decode().startswith("none ")  # type: ignore[attr-defined]


def test_a_member_without_the_role_is_told_who_may() -> None:
    tenant = make_tenant()
    response = admins(ask(make_person(tenant, Role.AUDITOR)), tenant.slug)
    assert response.status_code == 403
    assert b"Only an admin of this organisation may do this." in response.content  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_whoever_is_no_member_or_no_longer_one_finds_nothing(method: str) -> None:
    tenant = make_tenant()
    former = make_person(tenant, Role.ADMIN)
    with acting(tenant.pk):
        from django.utils import timezone

        Membership.objects.update(ended_at=timezone.now())
    for person, slug in (
        (former, tenant.slug),
        (make_person(make_tenant(), Role.ADMIN), tenant.slug),
        (former, "no"),
    ):
        with pytest.raises(Http404):
            admins(ask(person, method), slug)


def test_a_template_response_is_rendered_in_the_scope() -> None:
    @tenant_page()
    def page(request: TenantRequest, slug: str) -> HttpResponse:
        return TemplateResponse(request, "403.html", {"exception": "because"}, status=422)

    tenant = make_tenant()
    for method in ("GET", "POST"):
        response = page(ask(make_person(tenant, Role.AUDITOR), method), tenant.slug)
        assert response.status_code == 422
        assert tenant.name.encode() in response.content  # type: ignore[attr-defined]


def test_a_refusal_becomes_content() -> None:
    @tenant_page()
    def late(request: TenantRequest, slug: str) -> HttpResponse:
        raise Conflict("p.quint signed at 14:31.")

    tenant = make_tenant()
    response = late(ask(make_person(tenant, Role.MANAGER), "POST"), tenant.slug)
    assert response.status_code == 409
    assert b"p.quint signed at 14:31." in response.content  # type: ignore[attr-defined]


def test_a_refusal_names_several_roles_as_a_sentence_does() -> None:
    said = authority.who_may(Role.ADMIN, Role.OPERATOR, Role.AUDITOR)
    assert said == "Only an admin, an operator or an auditor of this organisation may do this."
    said = authority.who_may(Role.MANAGER, Role.ADMIN)
    assert said == "Only a manager or an admin of this organisation may do this."


def test_what_was_typed_comes_back_with_a_refusal_and_nothing_else_of_the_form() -> None:
    @tenant_page()
    def late(request: TenantRequest, slug: str) -> HttpResponse:
        raise Conflict("JOB-7 is held already.")

    tenant = make_tenant()
    request = ask(make_person(tenant, Role.OPERATOR), "POST")
    request.POST = QueryDict("reason=The+%3Cb%3Ebank%3C%2Fb%3E+is+shut&password=correct+horse&attempts=3")
    html = late(request, tenant.slug).content.decode()  # type: ignore[attr-defined]
    assert "What you wrote, not recorded" in html
    assert "The &lt;b&gt;bank&lt;/b&gt; is shut" in html
    assert "correct horse" not in html
    request.POST = QueryDict("reason=++")
    assert "What you wrote" not in late(request, tenant.slug).content.decode()  # type: ignore[attr-defined]


def test_a_lock_that_somebody_holds_is_a_conflict_and_other_faults_are_not() -> None:
    """A holds the tenant's row; B's action waits for it 50 ms and gives up."""
    import threading

    from django.db import connection

    tenant = make_tenant()
    person = make_person(tenant, Role.MANAGER)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with acting(tenant.pk):
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(4711)")
            held.set()
            done.wait(20)
        connection.close()

    @tenant_page()
    def waits(request: TenantRequest, slug: str) -> HttpResponse:
        with acting(tenant.pk, lock_timeout_ms=50), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(4711)")
        return HttpResponse()

    @tenant_page()
    def breaks(request: TenantRequest, slug: str) -> HttpResponse:
        raise OperationalError("the server went away")

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(20)
    try:
        response = waits(ask(person, "POST"), tenant.slug)
    finally:
        done.set()
        thread.join()
    assert response.status_code == 409
    assert b"Somebody else is at it" in response.content  # type: ignore[attr-defined]
    with pytest.raises(OperationalError):
        breaks(ask(person, "POST"), tenant.slug)


def test_belongings_are_those_of_the_person_alone() -> None:
    first, second, other = make_tenant("aaa-first"), make_tenant("bbb-second"), make_tenant()
    person = make_person(first, Role.ADMIN, Role.MANAGER)
    make_person(other, Role.ADMIN)
    with acting(second.pk):
        Membership.objects.create(tenant=second, person=person, role=Role.AUDITOR)
    assert tenants_of(person.pk) == [Belonging(t.pk, t.slug, t.name) for t in (first, second)]


def test_the_front_leads_to_the_one_organisation_or_offers_the_choice() -> None:
    first, second = make_tenant(), make_tenant()
    one, both, none = make_person(first, Role.ADMIN), make_person(first, Role.ADMIN), make_person(first)
    with acting(second.pk):
        Membership.objects.create(tenant=second, person=both, role=Role.AUDITOR)
    pages = {}
    for person in (one, both, none):
        client = Client(headers={"host": "localhost"})
        client.force_login(person)
        pages[person.pk] = client.get("/")
    assert pages[one.pk].headers["Location"] == f"/t/{first.slug}/"
    assert all(f"/t/{t.slug}/" in pages[both.pk].content.decode() for t in (first, second))
    assert "You belong to no organisation yet" in pages[none.pk].content.decode()


def test_whoever_is_not_signed_in_is_sent_to_the_sign_in() -> None:
    tenant: Tenant = make_tenant()
    response = Client(headers={"host": "localhost"}).get(f"/t/{tenant.slug}/")
    assert response.headers["Location"] == f"/sign-in/?next=/t/{tenant.slug}/"


def test_times_are_shown_in_the_tenants_zone_and_no_further(client: Client) -> None:
    tenant = make_tenant()
    Tenant.objects.filter(pk=tenant.pk).update(time_zone="Asia/Kolkata")
    person = make_person(tenant, Role.AUDITOR)
    client.force_login(person)
    page = client.get(f"/t/{tenant.slug}/").content.decode()
    assert "IST" in page
    assert timezone.get_current_timezone_name() == "UTC"


def test_what_was_written_comes_back_from_every_text_area() -> None:
    """A refusal shows the fields that it knows by name, so a new text area needs a name that is known."""
    get_resolver().url_patterns  # noqa: B018 - reading it loads every page, and with it every form
    templates = (PROJECT / "templates").rglob("*.html")
    names = {
        name for file in templates for name in re.findall(r'<textarea[^>]* name="(\w+)"', file.read_text())
    }
    for form in all_below(forms.Form):
        if not form.__module__.startswith(("tests.", "django.")):
            fields = form.base_fields.items()
            names |= {name for name, field in fields if isinstance(field.widget, forms.Textarea)}
    assert {"body", "reason"} < names
    assert names <= set(WRITTEN)


def all_below(kind: type[forms.Form]) -> set[type[forms.Form]]:
    return {kind}.union(*(all_below(below) for below in kind.__subclasses__()))
