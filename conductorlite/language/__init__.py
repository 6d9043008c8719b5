"""Text in a definition that is evaluated: `${…}` templates, paths, conditions, scripts, durations, cron expressions."""
