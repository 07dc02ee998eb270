-- What waits for the owner, the soonest end first: of all, of a lane, of a job, of a conversation. Few rows wait, so
-- these stay small however long the record grows; status and worker stand in them so that no row need be read to count.
CREATE INDEX actions_waiting ON proposed_actions (status, worker, expires_at)
    WHERE status = 'PENDING' AND worker IS NULL;
CREATE INDEX actions_waiting_lane ON proposed_actions (lane, status, worker, expires_at)
    WHERE status = 'PENDING' AND worker IS NULL;
CREATE INDEX actions_waiting_job ON proposed_actions (job_id, status, worker, expires_at)
    WHERE status = 'PENDING' AND worker IS NULL;
CREATE INDEX actions_waiting_thread ON proposed_actions (thread_id, status, worker, expires_at)
    WHERE status = 'PENDING' AND worker IS NULL;
