// Command calculator is a small MCP server that computes. It is an example, and a
// server for the project's tests.
package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"math"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type expression struct {
	Expression string `json:"expression" jsonschema:"numbers with + - * / % and parentheses, such as (5 + 3) * 2"`
}

type pair struct {
	A float64 `json:"a" jsonschema:"the first number"`
	B float64 `json:"b" jsonschema:"the second number"`
}

type answer struct {
	Result float64 `json:"result"`
}

func main() {
	s := mcp.NewServer(&mcp.Implementation{Name: "calculator", Version: "1.0.0"},
		&mcp.ServerOptions{Instructions: "Computes with numbers."})
	mcp.AddTool(s, pure("calculate", "Compute an arithmetic expression."),
		func(_ context.Context, _ *mcp.CallToolRequest, in expression) (*mcp.CallToolResult, answer, error) {
			v, err := calculate(in.Expression)
			return nil, answer{v}, err
		})
	mcp.AddTool(s, pure("add", "Add two numbers."), func(_ context.Context, _ *mcp.CallToolRequest, in pair) (*mcp.CallToolResult, answer,
		error) {
		v, err := finite(in.A + in.B)
		return nil, answer{v}, err
	})
	mcp.AddTool(s, pure("multiply", "Multiply two numbers."),
		func(_ context.Context, _ *mcp.CallToolRequest, in pair) (*mcp.CallToolResult, answer, error) {
			v, err := finite(in.A * in.B)
			return nil, answer{v}, err
		})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}

func pure(name, description string) *mcp.Tool {
	closed := false
	return &mcp.Tool{Name: name, Description: description, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true,
		OpenWorldHint: &closed}}
}

func calculate(text string) (float64, error) {
	if len(text) > 1000 {
		return 0, fmt.Errorf("the expression has %d characters; the maximum is 1000", len(text))
	}
	e, err := parser.ParseExpr(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a valid expression: %w", text, err)
	}
	v, err := value(e)
	if err != nil {
		return 0, err
	}
	return finite(v)
}

func finite(v float64) (float64, error) {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, fmt.Errorf("the result is not a finite number")
	}
	return v, nil
}

func value(e ast.Expr) (float64, error) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return value(e.X)
	case *ast.BasicLit:
		if e.Kind == token.INT || e.Kind == token.FLOAT {
			return strconv.ParseFloat(e.Value, 64)
		}
	case *ast.UnaryExpr:
		v, err := value(e.X)
		switch {
		case e.Op == token.SUB:
			return -v, err
		case e.Op == token.ADD:
			return v, err
		}
	case *ast.BinaryExpr:
		return binary(e)
	}
	return 0, fmt.Errorf("only numbers, + - * / %% and parentheses are supported")
}

func binary(e *ast.BinaryExpr) (float64, error) {
	a, err := value(e.X)
	if err != nil {
		return 0, err
	}
	b, err := value(e.Y)
	if err != nil {
		return 0, err
	}
	switch e.Op {
	case token.ADD:
		return a + b, nil
	case token.SUB:
		return a - b, nil
	case token.MUL:
		return a * b, nil
	case token.QUO, token.REM:
		if b == 0 {
			return 0, fmt.Errorf("division by zero")
		}
		if e.Op == token.REM {
			return math.Mod(a, b), nil
		}
		return a / b, nil
	}
	return 0, fmt.Errorf("operator %s is not supported", e.Op)
}
