package seal_test

import (
	"errors"
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// A token carries what the gateway needs to know later, so that it need not remember it.
// The client that carries the token can neither read nor change it, nor use it for
// another purpose. Write into the purpose whom it is for, since only the same purpose
// opens it, and into the text when it ends, since that is for the caller to check.
func Example() {
	ring := seal.RandomRing() // of a file of keys: seal.ParseKeys, seal.NewRing
	token, err := ring.Seal("cursor of tenant acme", []byte("page 3"))
	if err != nil {
		fmt.Println(err)
		return
	}

	plain, err := ring.Open("cursor of tenant acme", token)
	fmt.Printf("%s, %v\n", plain, err)

	_, err = ring.Open("cursor of tenant umbrella", token)
	fmt.Println(errors.Is(err, seal.ErrInvalid))
	// Output:
	// page 3, <nil>
	// true
}
