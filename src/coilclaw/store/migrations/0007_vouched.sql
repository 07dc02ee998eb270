-- What binds rows to the ledger (decision 0014). A MAC is made with a key that the database does not hold: whoever can
-- write here, and has not that key, can add nothing that holds.

ALTER TABLE receipts ADD COLUMN mac BLOB;
-- The hash of the action's whole row as this event left it, when the event is about an action.
ALTER TABLE audit_log ADD COLUMN state BLOB;
-- The hash of the predecessor's link and of everything in this row.
ALTER TABLE audit_log ADD COLUMN link BLOB;
ALTER TABLE audit_log ADD COLUMN mac BLOB;
-- The MAC of an ended action's state, written when the last event that held it was pruned.
ALTER TABLE proposed_actions ADD COLUMN seal BLOB;

-- Events that retention took away, from number to number, and the link the last of them had.
CREATE TABLE audit_gaps (
    first INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    link BLOB NOT NULL,
    mac BLOB NOT NULL
);
