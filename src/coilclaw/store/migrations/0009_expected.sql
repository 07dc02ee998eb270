-- What the step of a plan that a call belongs to must leave: the expected outputs of its packet, as a JSON list.
ALTER TABLE proposed_actions ADD COLUMN expected_json TEXT;
