module headwater/amqppeer

go 1.25.0

require github.com/Azure/go-amqp v1.7.0
