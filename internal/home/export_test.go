package home

// Migrations are those of a tenant's database.
var Migrations = migrations
