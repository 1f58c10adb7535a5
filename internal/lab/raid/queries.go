package raid

import "context"

const numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "

// queries asks a file of SQLite for what takes longest and most, again and again: the
// gateway itself runs them.
var queries = Attack{
	Name: "queries of a database",
	Does: "40 connections query a file of SQLite: recursion without an end, a sort beyond its memory, " +
		"huge cells, 10^7 rows",
	Raised: true, Raiders: 40, Few: 10,
	Begin: func(_ context.Context, r *Raider) func() {
		query := []string{
			numbers + "count(*) FROM n",
			numbers + "count(*) FROM (SELECT i FROM n LIMIT 10000000)",
			"SELECT * FROM (" + numbers + "i, randomblob(200) AS b FROM n LIMIT 1000000) ORDER BY b",
			numbers + "printf('%.*c', 1000000, 'x') FROM n",
		}[r.number%4]
		return r.repeat(r.callOf("library", "query_database", `{"query":"`+query+`","limit":1000}`))
	},
	Signs: Signs{Replies: 1},
}
