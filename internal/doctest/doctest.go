// Package doctest holds the tests of the pages: README.md, docs and the other Markdown
// files of the repository. They answer whether each link, name and command in a page is
// there, whether the reference has a row for each key, code, metric, field, flag and
// warning of the code and for nothing else, and whether the sentences are short enough to
// be read once. It does not know whether a page is true: the tests of the packages that a
// page is about show that.
//
// To read it, begin with pages_test.go (links, names and commands), then
// reference_test.go with tables_test.go (the reference, both ways), keys_test.go (the
// keys of the config) and words_test.go (words and sentences). What the repository has is
// read by repository_test.go.
package doctest
