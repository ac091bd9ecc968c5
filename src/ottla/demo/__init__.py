"""The sample pipeline: real tweets through a broker, Spark, a document store and a search index.

tweets      the 4,200 tweets with human sentiment scores, fetched once as part of a Python package
producer    puts them into the topic `tweets`, each exactly once
query       the two Spark queries: score each tweet; count sentiments by window
broker      the broker that the demo starts unless `--bootstrap` names one
monitor     follows the output topics and the groups' lag, for the page
page        the live page of the terminal, or plain lines
verify      checks that every tweet arrived in every store exactly once
run         starts all of these in order, and stops them
"""
