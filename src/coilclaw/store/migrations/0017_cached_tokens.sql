-- How many of the tokens read came from the provider's cache; rows written before this say none.
ALTER TABLE usage ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;
