import access.tenancy
import django.db.models.deletion
import django.db.models.functions.comparison
from django.conf import settings
from django.db import migrations, models

FOLDED = "upper(regexp_replace(normalize(reference, NFKC), '[^[:alnum:]]+', '', 'g'))"


class Migration(migrations.Migration):

    replaces = [('statements', '0001_initial'), ('statements', '0002_matching'), ('statements', '0003_tallies'), ('statements', '0004_errors_page_by_age')]

    initial = True

    dependencies = [
        ('access', '0005_restored_tenants'),
        ('access', '__first__'),
        ('dispatch', '0009_reversals'),
    ]

    operations = [
        migrations.CreateModel(
            name='Mapping',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.IntegerField()),
                ('terms', models.JSONField()),
                ('written_at', models.DateTimeField()),
                ('receiver', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.receiver')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
                ('written_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(fields=('receiver', 'version'), name='one_mapping_a_version')],
            },
        ),
        migrations.CreateModel(
            name='MatchingSettings',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.IntegerField()),
                ('terms', models.JSONField()),
                ('written_at', models.DateTimeField()),
                ('receiver', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.receiver')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
                ('written_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(fields=('receiver', 'version'), name='one_matching_settings_a_version')],
            },
        ),
        migrations.CreateModel(
            name='Statement',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('account', models.CharField(blank=True, default='', max_length=200)),
                ('name', models.CharField(max_length=200)),
                ('digest', models.CharField(max_length=64)),
                ('size', models.BigIntegerField()),
                ('format', models.CharField(choices=[('csv', 'CSV'), ('camt.053', 'camt.053'), ('mt940', 'MT940')], max_length=10)),
                ('encoding', models.CharField(blank=True, default='', max_length=20)),
                ('evidence', models.CharField(blank=True, default='', max_length=500)),
                ('uploaded_at', models.DateTimeField()),
                ('state', models.CharField(choices=[('uploaded', 'Uploaded'), ('reading', 'Reading'), ('read', 'Read'), ('applied', 'Applied'), ('discarded', 'Discarded')], default='uploaded', max_length=10)),
                ('reading', models.IntegerField(default=0)),
                ('position', models.BigIntegerField(default=0)),
                ('rows', models.IntegerField(default=0)),
                ('lines', models.IntegerField(default=0)),
                ('repeated', models.IntegerField(default=0)),
                ('errors', models.IntegerField(default=0)),
                ('left_out', models.IntegerField(default=0)),
                ('currency', models.CharField(blank=True, default='', max_length=3)),
                ('opening', models.BigIntegerField(blank=True, null=True)),
                ('closing', models.BigIntegerField(blank=True, null=True)),
                ('first_booked_on', models.DateField(blank=True, null=True)),
                ('last_booked_on', models.DateField(blank=True, null=True)),
                ('amount_in', models.BigIntegerField(default=0)),
                ('amount_out', models.BigIntegerField(default=0)),
                ('worked_by', models.CharField(blank=True, default='', max_length=200)),
                ('worked_until', models.DateTimeField(blank=True, null=True)),
                ('swept_at', models.DateTimeField(blank=True, null=True)),
                ('read_at', models.DateTimeField(blank=True, null=True)),
                ('applied_at', models.DateTimeField(blank=True, null=True)),
                ('discarded_at', models.DateTimeField(blank=True, null=True)),
                ('applied_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('discarded_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('mapping', access.tenancy.TenantForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='statements.mapping')),
                ('read_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('receiver', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.receiver')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
                ('uploaded_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'indexes': [models.Index(fields=['tenant', '-id'], name='statement_by_age'), models.Index(condition=models.Q(('state', 'reading'), models.Q(('state', 'discarded'), ('swept_at__isnull', True)), _connector='OR'), fields=['id'], name='statement_with_work')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state', 'discarded'), _negated=True), fields=('receiver', 'account', 'digest'), name='one_statement_a_file'), models.UniqueConstraint(condition=models.Q(('state__in', ['reading', 'read']), models.Q(('state', 'discarded'), ('swept_at__isnull', True)), _connector='OR'), fields=('receiver', 'account'), name='one_undecided_statement_an_account'), models.CheckConstraint(condition=models.Q(models.Q(('applied_at__isnull', False), ('applied_by__isnull', False), ('state', 'applied')), models.Q(models.Q(('state', 'applied'), _negated=True), ('applied_at__isnull', True)), _connector='OR'), name='an_applied_statement_says_by_whom'), models.CheckConstraint(condition=models.Q(models.Q(('discarded_at__isnull', False), ('discarded_by__isnull', False), ('state', 'discarded')), models.Q(models.Q(('state', 'discarded'), _negated=True), ('discarded_at__isnull', True)), _connector='OR'), name='a_discarded_statement_says_by_whom'), models.CheckConstraint(condition=models.Q(models.Q(('errors', 0), ('state', 'applied')), models.Q(('state', 'applied'), _negated=True), _connector='OR'), name='no_statement_with_an_error_is_applied')],
            },
        ),
        migrations.CreateModel(
            name='RowError',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('row_number', models.IntegerField()),
                ('column', models.CharField(blank=True, default='', max_length=200)),
                ('was_read', models.CharField(blank=True, default='', max_length=500)),
                ('problem', models.CharField(max_length=500)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
                ('statement', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='statements.statement')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'indexes': [models.Index(fields=['statement', 'id'], name='row_error_by_age')],
            },
        ),
        migrations.CreateModel(
            name='MatchRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('settings_version', models.IntegerField(default=0)),
                ('terms', models.JSONField(default=dict)),
                ('asked_at', models.DateTimeField()),
                ('to_look_at', models.IntegerField(default=0)),
                ('rung', models.SmallIntegerField(default=0)),
                ('at_statement', models.BigIntegerField(default=0)),
                ('at_row', models.IntegerField(default=0)),
                ('looked_at', models.BigIntegerField(default=0)),
                ('taken', models.IntegerField(default=0)),
                ('differing', models.IntegerField(default=0)),
                ('worked_by', models.CharField(blank=True, default='', max_length=200)),
                ('worked_until', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('asked_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('receiver', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.receiver')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
                ('statement', access.tenancy.TenantForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='statements.statement')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'indexes': [models.Index(fields=['receiver', '-id'], name='match_run_by_age')],
                'constraints': [models.UniqueConstraint(models.F('receiver'), django.db.models.functions.comparison.Coalesce('statement', 0), condition=models.Q(('ended_at__isnull', True)), name='one_match_run_at_a_time')],
            },
        ),
        migrations.CreateModel(
            name='StatementLine',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('account', models.CharField(blank=True, default='', max_length=200)),
                ('row_number', models.IntegerField()),
                ('booked_on', models.DateField()),
                ('value_on', models.DateField(blank=True, null=True)),
                ('amount', models.BigIntegerField()),
                ('currency', models.CharField(max_length=3)),
                ('direction', models.CharField(choices=[('in', 'In'), ('out', 'Out')], max_length=3)),
                ('receivers_id', models.CharField(blank=True, default='', max_length=1000)),
                ('reference', models.CharField(blank=True, default='', max_length=1000)),
                ('text', models.CharField(blank=True, default='', max_length=1000)),
                ('counterparty', models.CharField(blank=True, default='', max_length=1000)),
                ('counterparty_account', models.CharField(blank=True, default='', max_length=1000)),
                ('fingerprint', models.BinaryField()),
                ('occurrence', models.IntegerField()),
                ('raw', models.TextField()),
                ('receiver', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.receiver')),
                ('statement', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='statements.statement')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(fields=('statement', 'row_number'), name='one_line_a_row'), models.UniqueConstraint(fields=('receiver', 'account', 'fingerprint', 'occurrence'), name='one_line_a_fingerprint'), models.CheckConstraint(condition=models.Q(('amount__gte', 0)), name='a_lines_amount_has_no_sign'), models.CheckConstraint(condition=models.Q(('direction__in', ['in', 'out'])), name='a_line_goes_in_or_out')],
            },
        ),
        migrations.CreateModel(
            name='RepeatedRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('row_number', models.IntegerField()),
                ('verdict', models.CharField(choices=[('equal', 'Equal'), ('asked', 'Asked'), ('same', 'Same'), ('another', 'Another')], max_length=10)),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('decided_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
                ('statement', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='statements.statement')),
                ('earlier', access.tenancy.TenantForeignKey(db_constraint=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='statements.statementline')),
                ('line', access.tenancy.TenantForeignKey(blank=True, db_constraint=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='statements.statementline')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(fields=('statement', 'row_number'), name='one_repeat_a_row'), models.UniqueConstraint(fields=('statement', 'earlier'), name='one_repeat_an_earlier_line'), models.CheckConstraint(condition=models.Q(models.Q(('decided_at__isnull', True), ('verdict__in', ['equal', 'asked'])), models.Q(('decided_at__isnull', False), ('decided_by__isnull', False), ('verdict__in', ['same', 'another'])), _connector='OR'), name='a_verdict_of_a_person_says_whose')],
            },
        ),
        migrations.CreateModel(
            name='Match',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('line_place', models.SmallIntegerField(default=0)),
                ('operation_place', models.SmallIntegerField(default=0)),
                ('together', models.CharField(blank=True, default='', max_length=32)),
                ('allocated', models.BigIntegerField()),
                ('tier', models.SmallIntegerField()),
                ('rule_version', models.SmallIntegerField()),
                ('settings_version', models.IntegerField(default=0)),
                ('compared', models.TextField(default='[]')),
                ('within_tolerance', models.BooleanField(default=False)),
                ('reason', models.TextField(blank=True, default='')),
                ('made_at', models.DateTimeField()),
                ('unmade_at', models.DateTimeField(blank=True, null=True)),
                ('made_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('operation', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.operation')),
                ('second', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
                ('line', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='statements.statementline')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'indexes': [models.Index(condition=models.Q(('together', ''), _negated=True), fields=['together'], name='match_together')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('unmade_at__isnull', True)), fields=('line', 'line_place'), name='one_match_a_line'), models.UniqueConstraint(condition=models.Q(('unmade_at__isnull', True)), fields=('operation', 'operation_place'), name='one_match_an_operation'), models.CheckConstraint(condition=models.Q(models.Q(('together', ''), _negated=True), models.Q(('line_place', 0), ('operation_place', 0)), _connector='OR'), name='only_a_set_has_second_places'), models.CheckConstraint(condition=models.Q(('allocated__gte', 0)), name='what_is_allocated_has_no_sign'), models.CheckConstraint(condition=models.Q(('within_tolerance', False), models.Q(('made_by__isnull', False), ('second__isnull', False), models.Q(('second', models.F('made_by')), _negated=True)), _connector='OR'), name='a_tolerance_needs_two_people'), models.CheckConstraint(condition=models.Q(('made_by__isnull', False), ('tier__lte', 2), _connector='OR'), name='the_machine_takes_three_tiers')],
            },
        ),
        migrations.CreateModel(
            name='Finding',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('says', models.CharField(choices=[('applied', 'Applied'), ('differs', 'Differs')], max_length=10)),
                ('compared', models.TextField(default='[]')),
                ('found_at', models.DateTimeField()),
                ('taken_at', models.DateTimeField(blank=True, null=True)),
                ('effect', models.CharField(blank=True, default='', max_length=20)),
                ('operation', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='dispatch.operation')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
                ('match', access.tenancy.TenantForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='statements.match')),
                ('line', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='statements.statementline')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'indexes': [models.Index(condition=models.Q(('taken_at__isnull', True)), fields=['id'], name='finding_to_be_taken'), models.Index(fields=['operation'], name='finding_by_operation')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('match__isnull', False)), fields=('match',), name='one_finding_a_match'), models.UniqueConstraint(condition=models.Q(('says', 'differs')), fields=('line', 'operation'), name='one_difference_a_line'), models.CheckConstraint(condition=models.Q(models.Q(('match__isnull', False), ('says', 'applied')), models.Q(('match__isnull', True), ('says', 'differs')), _connector='OR'), name='what_differs_is_no_match'), models.CheckConstraint(condition=models.Q(models.Q(('effect', ''), ('taken_at__isnull', True)), models.Q(('taken_at__isnull', False), models.Q(('effect', ''), _negated=True)), _connector='OR'), name='a_finding_that_is_taken_says_what_came_of_it')],
            },
        ),
        migrations.CreateModel(
            name='StatementPart',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.IntegerField()),
                ('content', models.BinaryField()),
                ('statement', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='statements.statement')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(fields=('statement', 'number'), name='one_part_a_number'), models.CheckConstraint(condition=models.Q(('number__gte', 0)), name='parts_are_counted_from_nought')],
            },
        ),
        migrations.CreateModel(
            name='Tally',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('lines', models.IntegerField(default=0)),
                ('amount', models.BigIntegerField(default=0)),
                ('statement', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='statements.statement')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(fields=('statement',), name='one_tally_a_statement')],
            },
        ),
        migrations.CreateModel(
            name='Unmatch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('reason', models.TextField()),
                ('unmade_at', models.DateTimeField()),
                ('match', access.tenancy.TenantForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='statements.match')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='access.tenant')),
                ('unmade_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'objects',
                'constraints': [models.UniqueConstraint(fields=('match',), name='a_match_is_unmade_once')],
            },
        ),
        migrations.RunSQL(
            f"""
            ALTER TABLE statements_statementline ADD COLUMN reference_hash bigint GENERATED ALWAYS AS
              (CASE WHEN {FOLDED} <> '' THEN hashtextextended({FOLDED}, 0) END) STORED;
            CREATE INDEX line_by_reference_hash ON statements_statementline (receiver_id, reference_hash)
              WHERE reference_hash IS NOT NULL;
            CREATE INDEX line_by_amount ON statements_statementline (receiver_id, amount);
            CREATE INDEX match_taken_apart ON statements_match (line_id, operation_id) WHERE unmade_at IS NOT NULL;
            """,
            """
            ALTER TABLE statements_statementline DROP COLUMN reference_hash;
            DROP INDEX line_by_amount; DROP INDEX match_taken_apart;
            """,
        ),
    ]
