"""The sample pipeline: real tweets through a broker, Spark, a document store and a search index.

tweets      the 4,200 tweets with human sentiment scores, fetched once as part of a Python package
producer    puts them into the topic `tweets`, each one exactly once
query       the two Spark queries: score each tweet; count sentiments by window
broker      the broker that the demo starts when it is not given one
monitor     what is in the output topics and how far the groups are, for the page
page        the live page of the terminal, or plain lines
verify      whether every tweet arrived in every store exactly once
run         all of it, in order, started and stopped
"""
