from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('reconciliation', '0014_key_mismatches'),
    ]

    operations = [
        migrations.AlterField(
            model_name='case',
            name='kind',
            field=models.CharField(choices=[('unknown outcome', 'Unknown Outcome'), ('conflicted', 'Conflicted'), ('partial', 'Partial'), ('possible duplicate', 'Possible Duplicate'), ('confirmation overdue', 'Confirmation Overdue'), ('retry exhausted', 'Retry Exhausted'), ('permanent error', 'Permanent Error'), ('revision missing', 'Revision Missing'), ('deadline passed', 'Deadline Passed'), ('proposal expired', 'Proposal Expired'), ('changes requested', 'Changes Requested'), ('fact changed', 'Fact Changed'), ('no approver', 'No Approver'), ('send blocked', 'Send Blocked'), ('cancelled with effect', 'Cancelled With Effect'), ('contradicted', 'Contradicted'), ('key mismatch', 'Key Mismatch'), ('not undone', 'Not Undone'), ('sent differs', 'Sent Differs'), ('undeliverable event', 'Undeliverable'), ('unclaimed statement lines', 'Unclaimed'), ('restored from backup', 'Restored'), ('budget passed', 'Budget Passed')], max_length=30),
        ),
        migrations.AddIndex(
            model_name='case',
            index=models.Index(condition=models.Q(('kind', 'budget passed'), ('resolved_at__isnull', True)), fields=['item'], name='case_budget_passed'),
        ),
    ]
