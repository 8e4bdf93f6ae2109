// Package tool has the command lines of qdstat and qdmanage, for the programs and
// for what documents them.
package tool
