-- session.sql - the reply to the last request of a session.

-- name: session_find
SELECT sequence, reply FROM quern_session WHERE id = ?1;

-- name: session_keep
INSERT INTO quern_session (id, sequence, reply, at_ms) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (id) DO UPDATE SET sequence = excluded.sequence, reply = excluded.reply,
    at_ms = excluded.at_ms;
