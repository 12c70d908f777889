INSERT INTO backfills (what, part) SELECT {what:String}, {part:String}
