// Package archtest holds the plan of the product: which package stands on which layer,
// and which packages may import which library. Its test parses the imports itself and
// fails when the code differs, so whoever adds a package or a library enters it here
// first.
package archtest

// Support lists the packages beside the product: tests and tools that are no part of it.
// They import what they like, and of the product only test files import them.
func Support() []string {
	return []string{
		"internal/archtest",
		"internal/corpus",
		"internal/count",
		"internal/fatal",
		"internal/freeport",
		"internal/redis/redistest",
		"internal/database/postgrestest",
		"internal/replica/replicatest",
		"server/primary/primarytest",
		"internal/seal/sealtest",
		"internal/wiretest",
		"metrics/metricstest",
		"internal/interop",
		"internal/interop/zitadel",
		"internal/sources",
		"internal/leaktest",
		"internal/lifetime/lifetimetest",
		"internal/netfault",
		"deploy",
		"deploy/kubernetes/test",
		"deploy/kubernetes/test/schemas",
		"internal/doctest",
	}
}
