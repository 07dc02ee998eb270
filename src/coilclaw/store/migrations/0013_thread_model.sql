-- The provider that answers in a conversation; null: the default one.
ALTER TABLE threads ADD COLUMN model TEXT;
