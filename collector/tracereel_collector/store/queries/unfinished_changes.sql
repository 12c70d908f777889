-- Number of deletions that this node has not finished.
SELECT
    (SELECT count() FROM system.mutations WHERE database = currentDatabase() AND NOT is_done)
    + (SELECT count() FROM system.replication_queue
       WHERE database = currentDatabase() AND type IN ('DROP_RANGE', 'MUTATE_PART'))
    + (SELECT count() FROM system.replicas WHERE database = currentDatabase() AND is_readonly)
