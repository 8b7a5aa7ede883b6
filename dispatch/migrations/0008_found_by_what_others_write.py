from django.db import migrations

# Of an operation's key and record as others write them, in any case and with any separators. Plain numbers, because the
# policies keep an index over an expression from being used; the ORM knows nothing of them.
FOLDED = "upper(regexp_replace(normalize(record, NFKC), '[^[:alnum:]]+', '', 'g'))"


class Migration(migrations.Migration):

    dependencies = [
        ('dispatch', '0007_reopened'),
    ]

    operations = [
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
