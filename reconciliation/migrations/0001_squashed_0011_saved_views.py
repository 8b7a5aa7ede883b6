import access.tenancy
import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.text
import workflows.models.files
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('reconciliation', '0001_initial'), ('reconciliation', '0002_case_not_undone'), ('reconciliation', '0003_deadline_passed'), ('reconciliation', '0004_bulk'), ('reconciliation', '0005_sent_differs'), ('reconciliation', '0006_undeliverable'), ('reconciliation', '0007_evidence_files'), ('reconciliation', '0008_receiver_and_fault'), ('reconciliation', '0009_incidents'), ('reconciliation', '0010_due_times'), ('reconciliation', '0011_saved_views')]

    initial = True

    dependencies = [
        ('access', '0005_restored_tenants'),
        ('access', '__first__'),
        ('dispatch', '0009_reversals'),
        ('outbox', '0003_one_job_in_order'),
        ('workflows', '0015_steps_run_again'),
    ]

    operations = [
        migrations.CreateModel(
            name='Bulk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('verb', models.CharField(max_length=20)),
                ('filters', models.JSONField(default=dict)),
                ('total', models.IntegerField(default=0)),
                ('state', models.CharField(choices=[('planned', 'Planned'), ('running', 'Running'), ('stopped', 'Stopped'), ('finished', 'Finished')], default='planned', max_length=10)),
                ('reason', models.TextField(blank=True, default='')),
                ('attempts', models.SmallIntegerField(default=0)),
                ('planned_at', models.DateTimeField()),
                ('confirmed_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('worked_by', models.CharField(blank=True, default='', max_length=200)),
                ('worked_until', models.DateTimeField(blank=True, null=True)),
                ('confirmed_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('planned_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('stopped_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'indexes': [models.Index(fields=['tenant', '-id'], name='bulk_by_age'), models.Index(condition=models.Q(('state', 'running')), fields=['id'], name='bulk_running')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('confirmed_at__isnull', True), ('state', 'planned')), models.Q(models.Q(('state', 'planned'), _negated=True), ('confirmed_at__isnull', False), ('confirmed_by__isnull', False)), _connector='OR'), name='a_bulk_is_confirmed_by_somebody'), models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', True), ('state__in', ['planned', 'running'])), models.Q(('ended_at__isnull', False), ('state__in', ['stopped', 'finished'])), _connector='OR'), name='a_bulk_that_has_ended_says_when')],
            },
        ),
        migrations.CreateModel(
            name='Case',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('unknown outcome', 'Unknown Outcome'), ('conflicted', 'Conflicted'), ('partial', 'Partial'), ('possible duplicate', 'Possible Duplicate'), ('confirmation overdue', 'Confirmation Overdue'), ('retry exhausted', 'Retry Exhausted'), ('permanent error', 'Permanent Error'), ('revision missing', 'Revision Missing'), ('deadline passed', 'Deadline Passed'), ('proposal expired', 'Proposal Expired'), ('changes requested', 'Changes Requested'), ('fact changed', 'Fact Changed'), ('no approver', 'No Approver'), ('send blocked', 'Send Blocked'), ('cancelled with effect', 'Cancelled With Effect'), ('contradicted', 'Contradicted'), ('key mismatch', 'Key Mismatch'), ('not undone', 'Not Undone'), ('sent differs', 'Sent Differs'), ('undeliverable event', 'Undeliverable')], max_length=30)),
                ('fault', models.CharField(blank=True, db_default='', default='', max_length=80)),
                ('title', models.CharField(max_length=300)),
                ('detail', models.TextField(blank=True, default='')),
                ('owner_role', models.CharField(default='operator', max_length=20)),
                ('blocking', models.BooleanField(default=True)),
                ('opened_at', models.DateTimeField()),
                ('due_at', models.DateTimeField()),
                ('snoozed_until', models.DateTimeField(blank=True, null=True)),
                ('version', models.IntegerField(default=0)),
                ('resolved_at', models.DateTimeField(blank=True, null=True)),
                ('resolution', models.CharField(blank=True, default='', max_length=60)),
                ('resolution_reason', models.TextField(blank=True, default='')),
                ('assignee', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('item', access.tenancy.TenantForeignKey(blank=True, db_constraint=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='workflows.workitem')),
                ('job', access.tenancy.TenantForeignKey(db_constraint=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='workflows.job')),
                ('message', access.tenancy.TenantForeignKey(blank=True, db_constraint=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='outbox.message')),
                ('operation', access.tenancy.TenantForeignKey(blank=True, db_constraint=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.operation')),
                ('receiver', access.tenancy.TenantForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.receiver')),
                ('resolved_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('second_person', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'indexes': [models.Index(condition=models.Q(('resolved_at__isnull', True)), fields=['tenant', 'due_at', 'id'], name='case_open'), models.Index(condition=models.Q(('resolved_at__isnull', True)), fields=['job'], name='case_open_of_job')],
                'constraints': [models.UniqueConstraint(models.F('kind'), models.F('job'), django.db.models.functions.comparison.Coalesce('operation', 0), django.db.models.functions.comparison.Coalesce('item', 0), condition=models.Q(('resolved_at__isnull', True)), name='one_open_case_a_question'), models.CheckConstraint(condition=models.Q(('second_person__isnull', True), models.Q(('second_person', models.F('resolved_by')), _negated=True), _connector='OR'), name='a_second_person_is_another'), models.CheckConstraint(condition=models.Q(models.Q(('resolution', ''), ('resolved_at__isnull', True)), models.Q(('resolved_at__isnull', False), models.Q(('resolution', ''), _negated=True)), _connector='OR'), name='a_resolved_case_says_how')],
            },
        ),
        migrations.CreateModel(
            name='BulkEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('seen_state', models.CharField(max_length=30)),
                ('seen_number', models.BigIntegerField()),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('done', 'Done'), ('refused', 'Refused'), ('changed', 'Changed'), ('failed', 'Failed'), ('left', 'Left')], default='waiting', max_length=10)),
                ('why', models.CharField(blank=True, default='', max_length=500)),
                ('settled_at', models.DateTimeField(blank=True, null=True)),
                ('bulk', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='reconciliation.bulk')),
                ('item', access.tenancy.TenantForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='workflows.workitem')),
                ('job', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='workflows.job')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
                ('case', access.tenancy.TenantForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='reconciliation.case')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'indexes': [models.Index(fields=['bulk', 'state', 'id'], name='bulk_entry_by_state')],
                'constraints': [models.UniqueConstraint(models.F('bulk'), models.F('job'), django.db.models.functions.comparison.Coalesce('item', 0), django.db.models.functions.comparison.Coalesce('case', 0), name='one_bulk_entry_a_thing'), models.CheckConstraint(condition=models.Q(models.Q(('settled_at__isnull', True), ('state', 'waiting')), models.Q(models.Q(('state', 'waiting'), _negated=True), ('settled_at__isnull', False)), _connector='OR'), name='a_settled_entry_says_when')],
            },
        ),
        migrations.CreateModel(
            name='DueTime',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=30)),
                ('minutes', models.IntegerField(blank=True, null=True)),
                ('written_at', models.DateTimeField()),
                ('receiver', access.tenancy.TenantForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.receiver')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
                ('written_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'indexes': [models.Index(fields=['tenant', 'kind', '-id'], name='due_time_by_kind')],
                'constraints': [models.CheckConstraint(condition=models.Q(('minutes__isnull', True), models.Q(('minutes__gte', 5), ('minutes__lte', 129600)), _connector='OR'), name='a_due_time_is_minutes_to_months')],
            },
        ),
        migrations.CreateModel(
            name='EvidenceFile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64)),
                ('kind', models.CharField(max_length=10)),
                ('size', models.IntegerField()),
                ('content', models.BinaryField()),
                ('kept_at', models.DateTimeField()),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(fields=('tenant', 'digest'), name='one_evidence_file_a_digest'), models.CheckConstraint(condition=models.Q(('digest', workflows.models.files.HexDigest(models.F('content')))), name='an_evidence_files_digest_is_of_its_bytes'), models.CheckConstraint(condition=models.Q(('size', django.db.models.functions.text.Length('content')), ('size__gt', 0)), name='an_evidence_files_size_is_of_its_bytes'), models.CheckConstraint(condition=models.Q(('kind__in', ['pdf', 'png', 'jpeg', 'docx', 'text'])), name='an_evidence_file_is_of_a_known_kind')],
            },
        ),
        migrations.CreateModel(
            name='Evidence',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('observed', 'Observed'), ('comment', 'Comment'), ('statement', 'Statement'), ('receipt', 'Receipt')], default='observed', max_length=20)),
                ('summary', models.CharField(max_length=500)),
                ('detail', models.TextField(blank=True, default='')),
                ('source', models.CharField(max_length=200)),
                ('proves', models.CharField(default='nothing', max_length=60)),
                ('taken_at', models.DateTimeField()),
                ('kept_at', models.DateTimeField(blank=True, null=True)),
                ('file_name', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('given_digest', models.CharField(blank=True, db_default='', default='', max_length=64)),
                ('case', access.tenancy.TenantForeignKey(db_constraint=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='reconciliation.case')),
                ('person', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
                ('file', access.tenancy.TenantForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='reconciliation.evidencefile')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('file__isnull', True), ('file_name', ''), ('given_digest', '')), models.Q(('file__isnull', False), models.Q(('file_name', ''), _negated=True), models.Q(('given_digest', ''), _negated=True)), _connector='OR'), name='an_evidence_that_has_a_file_names_it')],
            },
        ),
        migrations.CreateModel(
            name='Incident',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=30)),
                ('fault', models.CharField(max_length=80)),
                ('began_at', models.DateTimeField()),
                ('opened_at', models.DateTimeField()),
                ('announced_at', models.DateTimeField(blank=True, null=True)),
                ('closed_at', models.DateTimeField(blank=True, null=True)),
                ('receiver', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.receiver')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'indexes': [models.Index(fields=['tenant', '-id'], name='incident_by_age')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('closed_at__isnull', True)), fields=('receiver', 'kind', 'fault'), name='one_open_incident_a_fault'), models.CheckConstraint(condition=models.Q(('fault', ''), _negated=True), name='an_incident_says_what_went_wrong')],
            },
        ),
        migrations.AddField(
            model_name='case',
            name='incident',
            field=access.tenancy.TenantForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='reconciliation.incident'),
        ),
        migrations.CreateModel(
            name='ResolutionRequest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('verb', models.CharField(max_length=40)),
                ('reason', models.TextField()),
                ('details', models.JSONField(default=dict)),
                ('asked_at', models.DateTimeField()),
                ('closed_at', models.DateTimeField(blank=True, null=True)),
                ('outcome', models.CharField(blank=True, default='', max_length=20)),
                ('asked_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('case', access.tenancy.TenantForeignKey(db_constraint=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='reconciliation.case')),
                ('closed_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(condition=models.Q(('closed_at__isnull', True)), fields=('case',), name='one_open_request_a_case'), models.CheckConstraint(condition=models.Q(models.Q(('outcome__in', ['seconded', 'declined']), _negated=True), models.Q(('closed_by__isnull', False), models.Q(('closed_by', models.F('asked_by')), _negated=True)), _connector='OR'), name='another_person_seconds_or_declines'), models.CheckConstraint(condition=models.Q(models.Q(('closed_at__isnull', True), ('outcome', '')), models.Q(('closed_at__isnull', False), models.Q(('outcome', ''), _negated=True)), _connector='OR'), name='a_closed_request_says_how')],
            },
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60)),
                ('asked', models.JSONField(default=dict)),
                ('made_at', models.DateTimeField()),
                ('shared_at', models.DateTimeField(blank=True, null=True)),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(fields=('tenant', 'person', 'name'), name='one_view_a_name'), models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='a_view_has_a_name')],
            },
        ),
        migrations.AddIndex(
            model_name='case',
            index=models.Index(condition=models.Q(('incident__isnull', False)), fields=['incident'], name='case_of_incident'),
        ),
        migrations.AddIndex(
            model_name='case',
            index=models.Index(condition=models.Q(('incident__isnull', True), ('receiver__isnull', False), ('resolved_at__isnull', True)), fields=['opened_at'], name='case_ungrouped'),
        ),
        migrations.AddIndex(
            model_name='case',
            index=models.Index(condition=models.Q(('resolved_at__isnull', True)), fields=['tenant', 'kind'], include=('due_at', 'opened_at', 'snoozed_until', 'assignee', 'incident'), name='case_counted'),
        ),
    ]
