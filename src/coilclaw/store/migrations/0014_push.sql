-- Where a browser of a paired device can be reached while the panel is closed.
CREATE TABLE push_subscriptions (
    subscription_id TEXT PRIMARY KEY,
    device_id TEXT NOT NULL REFERENCES devices (device_id),
    endpoint TEXT NOT NULL UNIQUE,
    p256dh BLOB NOT NULL,          -- the browser's public key
    auth BLOB NOT NULL,            -- the secret it shares with us
    created_at TEXT NOT NULL
);
CREATE INDEX push_subscriptions_device ON push_subscriptions (device_id);

-- A notification on one way out of the house; the row is claimed before anything is sent.
CREATE TABLE notification_deliveries (
    notification_id TEXT NOT NULL REFERENCES notifications (notification_id) ON DELETE CASCADE,
    way TEXT NOT NULL,             -- a subscription's id, or url, or smtp
    status TEXT NOT NULL CHECK (status IN ('due', 'sent', 'failed', 'unknown', 'expired', 'settled', 'replaced')),
    attempts INTEGER NOT NULL DEFAULT 0,
    uncertain INTEGER NOT NULL DEFAULT 0,   -- sends that began and of which nobody knows the end
    next_at TEXT NOT NULL,
    code TEXT NOT NULL DEFAULT '',          -- what the last try came to
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (notification_id, way)
);
CREATE INDEX notification_deliveries_due ON notification_deliveries (next_at) WHERE status = 'due';
CREATE INDEX notification_deliveries_way ON notification_deliveries (way, status);

-- A device that cannot come in any more is told nothing, whoever ended it.
CREATE TRIGGER push_revoked AFTER UPDATE OF revoked_at ON devices WHEN new.revoked_at IS NOT NULL BEGIN
    DELETE FROM push_subscriptions WHERE device_id = new.device_id;
END;
CREATE TRIGGER push_signed_out AFTER DELETE ON auth_tokens
WHEN NOT EXISTS (SELECT 1 FROM auth_tokens WHERE device_id = old.device_id) BEGIN
    DELETE FROM push_subscriptions WHERE device_id = old.device_id;
END;
CREATE TRIGGER push_gone AFTER DELETE ON push_subscriptions BEGIN
    DELETE FROM notification_deliveries WHERE way = old.subscription_id;
END;
