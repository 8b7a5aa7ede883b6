"""A case keeps the receiver that it is about, and what went wrong: a queue is narrowed by the one, a storm is both."""

import django.db.models.deletion
from django.db import migrations, models

import access.tenancy

# Answered cases refuse every change, also this one.
_FILL = """
ALTER TABLE reconciliation_case DISABLE TRIGGER USER;
UPDATE reconciliation_case c SET receiver_id = o.receiver_id FROM dispatch_operation o
WHERE o.tenant_id = c.tenant_id AND o.id = c.operation_id;
ALTER TABLE reconciliation_case ENABLE TRIGGER USER;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("dispatch", "0004_who_wrote_a_contract"),
        ("reconciliation", "0007_evidence_files"),
    ]

    operations = [
        migrations.AddField(
            model_name="case",
            name="receiver",
            field=access.tenancy.TenantForeignKey(
                blank=True, db_constraint=False, db_index=False, null=True,
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="dispatch.receiver",
            ),
        ),
        migrations.AddField(
            model_name="case",
            name="fault",
            field=models.CharField(blank=True, db_default="", default="", max_length=80),
        ),
        migrations.AddIndex(
            model_name="case",
            index=models.Index(
                condition=models.Q(("resolved_at__isnull", True)),
                fields=["tenant", "kind"],
                include=("due_at", "opened_at", "snoozed_until", "assignee"),
                name="case_counted",
            ),
        ),
        migrations.RunSQL(_FILL, migrations.RunSQL.noop),
    ]
