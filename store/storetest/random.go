package storetest

var randomTests []test
