INSERT INTO schema_migrations (number, name, checksum)
SELECT {number:UInt32}, {name:String}, {checksum:String}
