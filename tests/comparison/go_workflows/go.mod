module order

go 1.24.5

require (
	github.com/cschleiden/go-workflows v1.4.3
	github.com/stretchr/testify v1.10.0
)
