package config

// Load reads and checks a config file. A RefusedError lists everything that is wrong with
// it; any other error says that the file cannot be read.
func Load(path string, env Environment) (*Config, error) {
	cfg, _, err := (&Loader{path: path, env: env}).Load()
	return cfg, err
}

// load reads a config whose file has that content. Warnings are looked for only in a
// config without problems, because a warning about a setting that must change anyway is
// noise.
func load(path string, data []byte, env Environment, known *memory) (*Config, Sources, error) {
	r := newReader(path, data, nil, env)
	r.known = known
	cfg, err := r.parse(data, r.config)
	if err == nil {
		cfg.Digest = cfg.Sources.digest()
		r.warnAll()
		r.remember()
	}
	return cfg, r.cfg.Sources, err
}

// Loader loads one config file again and again, and does again only what may come out
// differently. It reads every file of the config each time, but parses and checks the
// tenants of an included file only if its text is another one than in the config that it
// loaded last, or anything else is that they depend on. The configs that it returns share
// what is equal in them.
//
// A config of a Loader serves a gateway. It does not know where the patterns and
// acknowledgements of tenants stand, so Judge is for a config of Load. A Loader is for
// one goroutine at a time.
type Loader struct {
	path   string
	env    Environment
	memory memory
}

// NewLoader returns a Loader of the file at path.
func NewLoader(path string, env Environment) *Loader {
	return &Loader{path: path, env: env, memory: memory{lasting: true}}
}

// Load is the function Load, for a caller that watches the files. It returns the sources
// that were read even when the config is refused: the next change of one of those files
// is probably the correction, and the caller has to notice it.
func (l *Loader) Load() (*Config, Sources, error) {
	data, _, err := readFile(l.path)
	if err != nil {
		return nil, newReader(l.path, data, err, l.env).cfg.Sources, err
	}
	return load(l.path, data, l.env, &l.memory)
}
