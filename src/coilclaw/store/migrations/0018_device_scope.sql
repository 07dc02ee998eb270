-- What the tokens of a device open: everything, or only `/mcp`, for a program whose model is not the owner's.
ALTER TABLE devices ADD COLUMN scope TEXT NOT NULL DEFAULT '' CHECK (scope IN ('', 'mcp'));
