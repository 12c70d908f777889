-- Tables of this node that lack rows which another replica has taken.
SELECT table
FROM system.replicas
WHERE database = currentDatabase()
  AND (inserts_in_queue > 0 OR log_pointer <= log_max_index OR is_session_expired)
ORDER BY table
