// The tables that our API server has of Kubernetes' types, read from these types: `go run ./schema fields` prints the one of the
// documents, `go run ./schema originals` the one of the types behind them.
package main

import (
	"fmt"
	"os"
)

func main() {
	tables := map[string]func() string{"fields": fields, "originals": originals}
	if len(os.Args) == 2 {
		if table, known := tables[os.Args[1]]; known {
			fmt.Print(table())
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: schema fields|originals")
	os.Exit(2)
}
