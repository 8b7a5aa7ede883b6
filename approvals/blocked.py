"""The page of blocked recipients: who is blocked, by whom and why, and the two buttons of an admin."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from access.doors import TenantRequest, tenant_page
from access.refusals import Unprocessable
from access.roles import Role
from access.tenancy import reading
from approvals.actions.block import BlockedAlready, NoSuchBlock, block_recipient, lift_block
from approvals.models import RecipientBlock
from approvals.reasons import LONGEST_SHORT

PAGE = 50
_AREA = forms.Textarea(attrs={"rows": 3})


class BlockForm(forms.Form):
    """Whom to block, as proposals name them, and why."""

    recipient = forms.CharField(
        max_length=300, error_messages={"required": "Name the recipient as proposals do."}
    )
    reason = forms.CharField(max_length=LONGEST_SHORT, widget=_AREA, error_messages={"required": "Say why."})


class LiftForm(forms.Form):
    """Why the block is lifted."""

    reason = forms.CharField(max_length=LONGEST_SHORT, widget=_AREA, error_messages={"required": "Say why."})


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page()
def blocks(request: TenantRequest, slug: str) -> HttpResponseBase:
    """GET lists who is blocked and who was; POST blocks somebody."""
    if request.method != "POST":
        return _list(request, BlockForm())
    form = BlockForm(request.POST)
    if not form.is_valid():
        return _list(request, form, status=422)
    try:
        block_recipient(
            tenant_id=request.tenant.pk,
            recipient=form.cleaned_data["recipient"],
            reason=form.cleaned_data["reason"],
            person_id=request.person.pk,
            now=timezone.now(),
        )
    except (BlockedAlready, Unprocessable) as refused:
        form.add_error(None, str(refused))
        return _list(request, form, status=409 if isinstance(refused, BlockedAlready) else 422)
    messages.success(
        request, "Blocked. Nothing is proposed, approved or sent for them until an admin lifts it."
    )
    return redirect("blocks", slug)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(Role.ADMIN)
def lift(request: TenantRequest, slug: str, block_id: int) -> HttpResponseBase:
    """GET says what lifting allows and asks for a reason; POST lifts."""
    form = LiftForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            lift_block(
                tenant_id=request.tenant.pk,
                block_id=block_id,
                reason=form.cleaned_data["reason"],
                person_id=request.person.pk,
                now=timezone.now(),
            )
        except Unprocessable as refused:
            form.add_error("reason", str(refused))
        else:
            messages.success(request, "Lifted. What was voided stays voided; it can be proposed again.")
            return redirect("blocks", slug)
    with reading(request.tenant.pk):
        block = RecipientBlock.objects.filter(pk=block_id).first()
        if block is None:
            raise NoSuchBlock(f"There is no block {block_id} here.")
        status = 422 if form.is_bound else 200
        return render(request, "approvals/block_lift.html", {"blocked": block, "form": form}, status=status)


def _list(request: TenantRequest, form: BlockForm, *, status: int = 200) -> HttpResponse:
    with reading(request.tenant.pk):
        live = RecipientBlock.objects.filter(lifted_at__isnull=True).order_by("key", "pk")
        lifted = RecipientBlock.objects.filter(lifted_at__isnull=False).order_by("-lifted_at", "-pk")[:PAGE]
        context = {
            "form": form,
            "page": Paginator(live, PAGE).get_page(request.GET.get("page")),
            "lifted": list(lifted),
            "may_block": Role.ADMIN in request.roles,
        }
        return render(request, "approvals/blocks.html", context, status=status)
