import access.tenancy
import django.contrib.postgres.functions
import django.db.models.deletion
import uuid
from django.db import migrations, models

FOLDED = "upper(regexp_replace(normalize(record, NFKC), '[^[:alnum:]]+', '', 'g'))"


class Migration(migrations.Migration):

    replaces = [('dispatch', '0001_initial'), ('dispatch', '0002_what_was_sent'), ('dispatch', '0003_quarantined'), ('dispatch', '0004_who_wrote_a_contract'), ('dispatch', '0005_amounts_of_operations'), ('dispatch', '0006_callbacks'), ('dispatch', '0007_reopened'), ('dispatch', '0008_found_by_what_others_write'), ('dispatch', '0009_reversals')]

    initial = True

    dependencies = [
        ('access', '0005_restored_tenants'),
        ('approvals', '0011_by_record'),
        ('workflows', '0015_steps_run_again'),
    ]

    operations = [
        migrations.CreateModel(
            name='Operation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('ordinal', models.IntegerField()),
                ('operation_key', models.CharField(max_length=100)),
                ('account', models.CharField(blank=True, default='', max_length=200)),
                ('record', models.CharField(max_length=300)),
                ('amount_minor', models.BigIntegerField(blank=True, null=True)),
                ('currency', models.CharField(blank=True, db_default='', default='', max_length=3)),
                ('state', models.CharField(default='PREPARED', max_length=12)),
                ('version', models.IntegerField(default=0)),
                ('first_may_have_been_sent_at', models.DateTimeField(blank=True, null=True)),
                ('resubmit_safe_until', models.DateTimeField(blank=True, null=True)),
                ('next_step', models.CharField(blank=True, default='send', max_length=20)),
                ('ordered_by', models.CharField(blank=True, default='', max_length=200)),
                ('next_step_at', models.DateTimeField(blank=True, null=True)),
                ('automatic_resubmissions', models.IntegerField(default=0)),
                ('lookups', models.IntegerField(default=0)),
                ('receipt_id', models.CharField(blank=True, default='', max_length=200)),
                ('settled_at', models.DateTimeField(blank=True, null=True)),
                ('reopened_at', models.DateTimeField(blank=True, null=True)),
                ('quarantined_at', models.DateTimeField(blank=True, null=True)),
                ('fate_note', models.CharField(blank=True, default='', max_length=500)),
                ('created_at', models.DateTimeField()),
                ('job', access.tenancy.TenantForeignKey(db_constraint=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='workflows.job')),
                ('proposed', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='approvals.proposedoperation')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'indexes': [models.Index(fields=['tenant', 'record', 'id'], name='operation_by_record'), models.Index(condition=models.Q(('state__in', ['REFUSED', 'NOT_APPLIED', 'WITHDRAWN'])), fields=['operation_key'], name='operation_by_key')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('amount_minor__isnull', True), ('currency', '')), models.Q(('amount_minor__isnull', False), models.Q(('currency', ''), _negated=True)), _connector='OR'), name='an_amount_has_a_currency')],
            },
        ),
        migrations.CreateModel(
            name='Observation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=20)),
                ('finding', models.CharField(max_length=20)),
                ('proves', models.BooleanField(default=False)),
                ('summary', models.CharField(max_length=500)),
                ('detail', models.TextField(blank=True, default='')),
                ('digest', models.CharField(blank=True, default='', max_length=64)),
                ('receipt_id', models.CharField(blank=True, default='', max_length=200)),
                ('seen_by', models.CharField(max_length=200)),
                ('seen_at', models.DateTimeField()),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
                ('operation', access.tenancy.TenantForeignKey(db_constraint=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.operation')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
            },
        ),
        migrations.CreateModel(
            name='Receiver',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('title', models.CharField(max_length=200)),
                ('base_url', models.URLField(max_length=500)),
                ('account', models.CharField(blank=True, default='', max_length=200)),
                ('secret_reference', models.CharField(blank=True, default='', max_length=200)),
                ('paused_at', models.DateTimeField(blank=True, null=True)),
                ('paused_by', models.CharField(blank=True, default='', max_length=200)),
                ('pause_reason', models.CharField(blank=True, default='', max_length=1000)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(fields=('tenant', 'name'), name='one_receiver_a_name')],
            },
        ),
        migrations.AddField(
            model_name='receiver',
            name='public_id',
            field=models.UUIDField(db_default=django.contrib.postgres.functions.RandomUUID(), default=uuid.uuid4, editable=False, unique=True),
        ),
        migrations.AddField(
            model_name='operation',
            name='receiver',
            field=access.tenancy.TenantForeignKey(db_constraint=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.receiver'),
        ),
        migrations.CreateModel(
            name='Callback',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('message_id', models.CharField(max_length=200)),
                ('operation_key', models.CharField(blank=True, default='', max_length=100)),
                ('receipt_id', models.CharField(blank=True, default='', max_length=200)),
                ('finding', models.CharField(max_length=20)),
                ('summary', models.CharField(max_length=500)),
                ('body', models.TextField(blank=True, default='')),
                ('digest', models.CharField(max_length=64)),
                ('sent_at', models.DateTimeField(blank=True, null=True)),
                ('received_at', models.DateTimeField()),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
                ('operation', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.operation')),
                ('receiver', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.receiver')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'indexes': [models.Index(fields=['receiver', 'received_at', 'id'], name='callback_by_age'), models.Index(condition=models.Q(('operation__isnull', True)), fields=['receiver', 'receipt_id', 'id'], name='callback_of_nothing')],
                'constraints': [models.UniqueConstraint(fields=('receiver', 'message_id'), name='one_callback_an_id')],
            },
        ),
        migrations.CreateModel(
            name='ReceiverContract',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.IntegerField()),
                ('terms', models.JSONField()),
                ('reviewed_at', models.DateTimeField()),
                ('source', models.CharField(blank=True, default='', max_length=500)),
                ('written_by', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('reason', models.CharField(blank=True, db_default='', default='', max_length=1000)),
                ('receiver', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.receiver')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(fields=('receiver', 'version'), name='one_contract_a_version')],
            },
        ),
        migrations.AddField(
            model_name='operation',
            name='contract',
            field=access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.receivercontract'),
        ),
        migrations.CreateModel(
            name='Reversal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('receipt_id', models.CharField(blank=True, default='', max_length=200)),
                ('amount_minor', models.BigIntegerField(blank=True, null=True)),
                ('currency', models.CharField(blank=True, default='', max_length=3)),
                ('reason', models.CharField(max_length=1000)),
                ('asked_by', models.CharField(max_length=200)),
                ('asked_at', models.DateTimeField()),
                ('job', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='workflows.job')),
                ('original', access.tenancy.TenantForeignKey(db_constraint=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.operation')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(fields=('job',), name='one_reversal_a_job'), models.CheckConstraint(condition=models.Q(models.Q(('amount_minor__isnull', True), ('currency', '')), models.Q(('amount_minor__gt', 0), models.Q(('currency', ''), _negated=True)), _connector='OR'), name='a_reversal_takes_something_back')],
            },
        ),
        migrations.CreateModel(
            name='Submission',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.IntegerField()),
                ('item_id', models.BigIntegerField()),
                ('claim_no', models.IntegerField()),
                ('worker_id', models.BigIntegerField()),
                ('worker_name', models.CharField(max_length=200)),
                ('resubmission', models.BooleanField(default=False)),
                ('permit', models.CharField(default='approval', max_length=20)),
                ('body_digest', models.CharField(max_length=64)),
                ('checks', models.TextField(default='[]')),
                ('opened_at', models.DateTimeField()),
                ('send_deadline_at', models.DateTimeField()),
                ('may_have_been_sent_at', models.DateTimeField(blank=True, null=True)),
                ('closed_at', models.DateTimeField(blank=True, null=True)),
                ('outcome', models.CharField(blank=True, default='', max_length=20)),
                ('fault', models.CharField(blank=True, default='', max_length=300)),
                ('status', models.IntegerField(blank=True, null=True)),
                ('response_headers', models.TextField(blank=True, default='')),
                ('response_body', models.TextField(blank=True, default='')),
                ('response_digest', models.CharField(blank=True, default='', max_length=64)),
                ('receipt_id', models.CharField(blank=True, default='', max_length=200)),
                ('sent_head', models.TextField(blank=True, db_default='', default='')),
                ('sent_digest', models.CharField(blank=True, db_default='', default='', max_length=64)),
                ('sent_bytes', models.BigIntegerField(blank=True, null=True)),
                ('sent_differs', models.CharField(blank=True, db_default='', default='', max_length=500)),
                ('operation', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.operation')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(fields=('operation', 'number'), name='one_submission_a_number'), models.UniqueConstraint(condition=models.Q(('closed_at__isnull', True)), fields=('operation',), name='one_open_submission'), models.CheckConstraint(condition=models.Q(models.Q(('closed_at__isnull', True), ('outcome', '')), models.Q(('closed_at__isnull', False), models.Q(('outcome', ''), _negated=True)), _connector='OR'), name='a_closed_submission_has_an_outcome')],
            },
        ),
        migrations.AddIndex(
            model_name='operation',
            index=models.Index(condition=models.Q(('receipt_id', ''), _negated=True), fields=['receiver', 'receipt_id'], name='operation_by_receipt'),
        ),
        migrations.AddConstraint(
            model_name='operation',
            constraint=models.UniqueConstraint(fields=('proposed',), name='one_operation_a_proposed'),
        ),
        migrations.AddConstraint(
            model_name='operation',
            constraint=models.UniqueConstraint(condition=models.Q(('state__in', ['REFUSED', 'NOT_APPLIED', 'WITHDRAWN']), _negated=True), fields=('operation_key',), name='one_operation_a_key'),
        ),
        migrations.AddConstraint(
            model_name='operation',
            constraint=models.UniqueConstraint(condition=models.Q(('state__in', ['SUBMITTED', 'UNKNOWN'])), fields=('tenant', 'receiver', 'account', 'record'), name='one_operation_in_flight_a_record'),
        ),
        migrations.RunSQL(
            f"""
            ALTER TABLE dispatch_operation
              ADD COLUMN key_hash bigint GENERATED ALWAYS AS (hashtextextended(upper(operation_key), 0)) STORED,
              ADD COLUMN reference_hash bigint GENERATED ALWAYS AS (hashtextextended({FOLDED}, 0)) STORED;
            CREATE INDEX operation_by_key_hash ON dispatch_operation (key_hash) WHERE amount_minor IS NOT NULL;
            CREATE INDEX operation_by_reference_hash ON dispatch_operation (receiver_id, reference_hash)
              WHERE amount_minor IS NOT NULL;
            CREATE INDEX operation_by_amount ON dispatch_operation (receiver_id, amount_minor)
              WHERE amount_minor IS NOT NULL;
            """,
            """
            ALTER TABLE dispatch_operation DROP COLUMN key_hash, DROP COLUMN reference_hash;
            DROP INDEX operation_by_amount;
            """,
        ),
    ]
