from django.db import migrations, models

from dispatch.minor import amounts_of


def copy_amounts(apps, schema_editor):
    """What the frozen documents say, onto the operations that were made before; a thousand proposals at a time."""
    after = 0
    with schema_editor.connection.cursor() as cursor:
        while True:
            cursor.execute(
                "SELECT id, document FROM approvals_proposal WHERE id > %s ORDER BY id LIMIT 1000", [after]
            )
            proposals = cursor.fetchall()
            if not proposals:
                return
            after = proposals[-1][0]
            found = [
                (minor, currency, proposal, ordinal)
                for proposal, document in proposals
                for ordinal, (minor, currency) in amounts_of(document).items()
                if minor is not None
            ]
            cursor.executemany(
                "UPDATE dispatch_operation o SET amount_minor = %s, currency = %s"
                " FROM approvals_proposedoperation p"
                " WHERE p.id = o.proposed_id AND p.proposal_id = %s AND p.ordinal = %s",
                found,
            )


class Migration(migrations.Migration):

    dependencies = [
        ('access', '0005_restored_tenants'),
        ('approvals', '0009_policies_end'),
        ('dispatch', '0004_who_wrote_a_contract'),
        ('workflows', '0015_steps_run_again'),
    ]

    operations = [
        migrations.AddField(
            model_name='operation',
            name='amount_minor',
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='operation',
            name='currency',
            field=models.CharField(blank=True, db_default='', default='', max_length=3),
        ),
        migrations.RunPython(copy_amounts, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name='operation',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('amount_minor__isnull', True), ('currency', '')), models.Q(('amount_minor__isnull', False), models.Q(('currency', ''), _negated=True)), _connector='OR'), name='an_amount_has_a_currency'),
        ),
    ]
