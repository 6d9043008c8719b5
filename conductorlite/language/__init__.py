"""What may stand in a definition as text: `${…}` templates, paths, conditions, scripts, durations, cron expressions."""
