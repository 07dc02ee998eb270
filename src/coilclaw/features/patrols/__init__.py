"""Patrols: lint, tests, builds and audits of repositories as jobs; their alerts, health, quests and webhooks."""
