package schema

// Bounds of one schema.
const (
	maxSubschemas  = 2_000
	maxEnum        = 2_000
	maxPatterns    = 100
	maxPattern     = 1_024  // characters
	maxProgram     = 4_000  // instructions of one pattern
	maxPrograms    = 40_000 // of all patterns of a schema
	maxInPlace     = 512    // subschemas that one value can meet at once
	maxOverlapping = 512    // subschemas that meet one value because several branches lead there
)
