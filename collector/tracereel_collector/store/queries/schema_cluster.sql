SELECT cluster, nodes FROM schema_cluster ORDER BY at DESC LIMIT 1
