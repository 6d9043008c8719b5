"""Values that workflows are made of: definitions, executions, events and decisions, and their JSON."""
