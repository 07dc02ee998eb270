"""The registry: the owner's schedules as cron/jobs.json declares them."""
