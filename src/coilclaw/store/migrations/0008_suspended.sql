-- A passkey whose counter went back may have been copied: it counts for nothing until the owner clears it.
ALTER TABLE passkeys ADD COLUMN suspended_at TEXT;
