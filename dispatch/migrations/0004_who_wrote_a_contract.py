from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('dispatch', '0003_quarantined'),
    ]

    operations = [
        migrations.AddField(
            model_name='receivercontract',
            name='reason',
            field=models.CharField(blank=True, db_default='', default='', max_length=1000),
        ),
        migrations.AddField(
            model_name='receivercontract',
            name='written_by',
            field=models.CharField(blank=True, db_default='', default='', max_length=200),
        ),
    ]
